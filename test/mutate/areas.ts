/** The areas of the product: the sources of each, the tests that are to notice faults in them, and the time these get. */
import type { Area } from './campaign'

const E = 'test/engine'
const C = 'test/client'
const P = 'test/program'
const area = (
  sources: readonly string[],
  tests: readonly string[],
  slow: readonly string[],
  limit_s = 600,
): Area => ({ sources, tests, slow, limit_s })

/** Tests of the engine that begin with a command and end with what is settled. */
const WHOLE_ENGINE = ['place', 'settle', 'exits', 'reference'].map((name) => `${E}/${name}.test.ts`)

export const AREAS: Readonly<Record<string, Area>> = {
  machine: area(
    ['engine/machine', 'engine/memory', 'engine/limits.ts', 'engine/commands.ts'],
    [`${E}/memory`, `${E}/book`, `${E}/machine`],
    [`${E}/machine/laws.test.ts`, ...WHOLE_ENGINE, 'test/laws'],
  ),
  accounts: area(
    ['engine/accounts', 'engine/intake', 'engine/methods/account_methods.ts', 'engine/methods/operator.ts'],
    [`${E}/accounts`, `${E}/intake`],
    [`${E}/place.test.ts`, `${E}/reference.test.ts`, `${E}/audit`].concat(
      ['server/operator', 'tools/account_verbs'].map((name) => `test/${name}.test.ts`),
    ),
  ),
  reads: area(
    ['engine/reads', 'engine/history', 'engine/streams', 'engine/hashing'],
    [`${E}/streams.test.ts`, `${E}/reads`, `${E}/hashing`, `${E}/history`],
    ['test/routes/endpoints.test.ts', 'test/server/sockets.test.ts'],
  ),
  journal: area(
    ['engine/journal'],
    [`${E}/journal`],
    [`${E}/journal/crash.test.ts`, 'test/faults/second_start.test.ts', `${E}/boot/tail.test.ts`],
  ),
  stores: area(
    ['engine/snapshots', 'engine/stores', 'engine/boot', 'engine/audit'],
    [`${E}/stores`, `${E}/snapshots`, `${E}/audit`],
    [`${E}/sequencer/lease.test.ts`, `${E}/boot`],
    1_200,
  ),
  sequencer: area(
    ['engine/sequencer', 'engine/config.ts', 'engine/index.ts', 'engine/ports.ts', 'engine/venue.ts'].concat(
      ...['venue_methods', 'front', 'passed', 'passing', 'turns'].map((name) => `engine/methods/${name}.ts`),
    ),
    [`${E}/config.test.ts`, `${E}/sequencer`, ...WHOLE_ENGINE],
    ['test/laws/simulation.test.ts', `${E}/boot/restart.test.ts`].concat(
      ['front_rights', 'passed'].map((name) => `test/cluster/${name}.test.ts`),
    ),
  ),
  chain: area(
    ['engine/chain'],
    [`${E}/chain`],
    [`${E}/chain/relayer_storm.test.ts`, `${E}/lying_providers.test.ts`, `${E}/random_liar.test.ts`],
  ),
  cluster: area(
    ['engine/cluster'],
    ['test/cluster/replicated_log.test.ts', 'test/cluster/journal_log.test.ts'],
    ['hostile_gateway', 'cluster_node', 'log_campaign', 'venue_cluster'].map(
      (name) => `test/cluster/${name}.test.ts`,
    ),
  ),
  server: area(
    ['server'],
    ['headers', 'order_of_checks', 'undecided', 'settings', 'log_and_renewal', 'trust']
      .map((name) => `test/server/${name}.test.ts`)
      .concat('test/server'),
    ['process', 'slow_reader', 'tls', 'judged_machine', 'self_check', 'start_fault']
      .map((name) => `test/server/${name}.test.ts`)
      .concat('test/routes', 'test/faults/hostile_input.test.ts', 'test/faults/no_leak.test.ts')
      .concat(['links', 'carried_streams', 'front_rights'].map((name) => `test/cluster/${name}.test.ts`)),
  ),
  routes: area(['routes'], ['test/routes'], ['test/server/undecided.test.ts', 'test/server/sockets.test.ts']),
  protocol: area(
    ['protocol'],
    ['test/protocol'],
    [`${E}/machine/codec.test.ts`, 'test/docs/bodies.test.ts', `${E}/accounts/login.test.ts`].concat(
      ['vectors', 'attest/register_platform', 'settle/batches', 'settle/units', 'queue/pay'].map(
        (name) => `${P}/${name}.test.ts`,
      ),
      ['x509', 'pinned_transport', 'policy_file'].map((name) => `${C}/verify/${name}.test.ts`),
      'test/native/load_poseidon.test.ts',
      'test/server/operator.test.ts',
    ),
  ),
  enclave: area(['enclave'], ['test/enclave'], ['test/server/tls.test.ts', 'test/server/self_check.test.ts']),
  wallet: area(
    ['client/wallet', 'client/whole_file.ts'],
    [`${C}/wallet`, 'absorb', 'recover', 'vault_history'].map((name) =>
      name.startsWith('test') ? name : `${C}/${name}.test.ts`,
    ),
    ['test/simulation/campaign.test.ts', `${C}/session/session.test.ts`, `${C}/cli/wallet_cli.test.ts`],
  ),
  session: area(
    ['client/session', 'client/api', 'client/index.ts', 'client/limits.ts', 'client/testing'],
    [`${C}/session`],
    [
      'test/simulation/campaign.test.ts',
      `${C}/session/session.test.ts`,
      `${C}/face.test.ts`,
      `${C}/cli/trade.test.ts`,
    ],
  ),
  verify: area(
    ['client/verify', 'client/connect.ts', 'client/verified_venue.ts'],
    [`${C}/verify`],
    [
      `${C}/verify/connect.test.ts`,
      `${C}/verify/commands.test.ts`,
      'test/server/judged_machine.test.ts',
    ].concat(`${E}/boot/embedded.test.ts`),
  ),
  exit: area(
    ['client/exit', 'client/chain', 'client/archive', 'client/audit'],
    [`${C}/vault_history.test.ts`, `${C}/chain`, `${C}/archive`, `${C}/audit`],
    [`${C}/exit`, 'test/tools/audit_batch.test.ts'],
  ),
  cli: area(
    ['client/cli'],
    [`${C}/cli/verbs.test.ts`, 'test/tools/audit_batch.test.ts'],
    [`${C}/cli`, `${C}/archive/archive_command.test.ts`, `${C}/verify/commands.test.ts`].concat(
      ['account_verbs', 'wrong_inputs'].map((name) => `test/tools/${name}.test.ts`),
    ),
  ),
  pages: area(['client/page'], [`${C}/page`], []),
  native: area(
    ['native'],
    [
      'test/native/load_poseidon.test.ts',
      'test/native/load_ed25519.test.ts',
      'test/protocol/trees.test.ts',
      'test/protocol/ed25519.test.ts',
    ],
    ['test/native/rebuild.test.ts'],
  ),
  program: area(
    ['program/src'],
    [
      ...['deposit', 'initialize', 'open_epoch', 'exits', 'aliases', 'features'].map(
        (name) => `${P}/${name}.test.ts`,
      ),
      `${P}/queue`,
      `${P}/admin`,
      // Those that measure would notice a fault by its cost alone.
      ...['batches', 'payouts', 'strangers'].map((name) => `${P}/settle/${name}.test.ts`),
      `${P}/wind_down`,
      `${P}/sequences`,
      `${P}/attest`,
    ],
    [`${P}/wind_down/thousand.test.ts`, `${P}/fuzz.test.ts`],
    1_200,
  ),
}
