/** The areas of the product: sources, tests that are to notice faults in them, and the faults that no test can notice. */
import type { Area } from './campaign'

const E = 'test/engine'
const C = 'test/client'
const P = 'test/program'
const area = (sources: readonly string[], ...tests: readonly (readonly string[])[]): Area => ({
  sources,
  tests: tests.flat(),
})

/** Tests of the engine that go from a command to its settlement. */
const WHOLE_ENGINE = ['place', 'settle', 'reference'].map((name) => `${E}/${name}.test.ts`)

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
      'test/server/operator.test.ts',
      `${E}/accounts/account_command.test.ts`,
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
    [`${E}/chain/relayer_ahead.test.ts`, `${E}/lying_providers.test.ts`, `${E}/random_liar.test.ts`],
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
    ['headers', 'order_of_checks', 'undecided', 'settings', 'trust']
      .map((name) => `test/server/${name}.test.ts`)
      .concat('test/server'),
    ['process', 'slow_reader', 'tls', 'self_check']
      .map((name) => `test/server/${name}.test.ts`)
      .concat('test/routes', 'test/faults/hostile_input.test.ts', 'test/faults/no_leak.test.ts')
      .concat(['links', 'carried_streams', 'front_rights'].map((name) => `test/cluster/${name}.test.ts`)),
  ),
  routes: area(['routes'], ['test/routes'], ['test/server/undecided.test.ts', 'test/server/sockets.test.ts']),
  protocol: area(
    ['protocol'],
    ['test/protocol'],
    [`${E}/machine/codec.test.ts`, 'test/docs/pages.test.ts', `${E}/accounts/login.test.ts`].concat(
      ['vectors', 'attest/register_platform', 'settle/batches', 'settle/griefing', 'queue/pay'].map(
        (name) => `${P}/${name}.test.ts`,
      ),
      ['x509', 'connect', 'policy_file'].map((name) => `${C}/verify/${name}.test.ts`),
      'test/native/load_ed25519.test.ts',
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
    [`${C}/verify/connect.test.ts`, `${C}/verify/commands.test.ts`, 'test/server/self_check.test.ts'].concat(
      `${E}/boot/embedded.test.ts`,
    ),
  ),
  exit: area(
    ['client/exit', 'client/chain', 'client/archive', 'client/audit'],
    [`${C}/vault_history.test.ts`, `${C}/chain`, `${C}/archive`, `${C}/audit`],
    [`${C}/exit`, 'test/client/audit/audit_batch.test.ts'],
  ),
  cli: area(
    ['client/cli'],
    [`${C}/cli/verbs.test.ts`, 'test/client/audit/audit_batch.test.ts'],
    [`${C}/cli`, `${C}/archive/archive.test.ts`, `${C}/verify/commands.test.ts`].concat(
      'test/tools/wrong_inputs.test.ts',
      `${E}/accounts/account_command.test.ts`,
    ),
  ),
  pages: area(['client/page'], [`${C}/page`], []),
  native: area(
    ['native'],
    ['test/native/load_ed25519.test.ts', 'test/protocol/trees.test.ts', 'test/protocol/bodies.test.ts'],
    ['test/native/rebuild.test.ts'],
  ),
  program: area(
    ['program/src'],
    [
      ...['initialize', 'open_epoch', 'exits', 'aliases'].map((name) => `${P}/${name}.test.ts`),
      `${P}/queue`,
      `${P}/admin`,
      // Tests that measure would notice a fault by its cost alone.
      ...['batches', 'payouts'].map((name) => `${P}/settle/${name}.test.ts`),
      `${P}/wind_down`,
      `${P}/sequences`,
      `${P}/attest`,
    ],
    [`${P}/wind_down/thousand.test.ts`, `${P}/fuzz.test.ts`],
  ),
}

const FIRST_FIELD = 'the field is the first of its layout, so its offset is 0'

/** `file: old lines => new lines`, as a report prints them. */
export const EXPLAINED: Readonly<Record<string, string>> = {
  'engine/journal/frame.ts: const crc_at = body_at + u32At(bytes, next + BODY_BYTES_AT) => const crc_at = body_at + u32At(bytes, next - BODY_BYTES_AT)':
    FIRST_FIELD,
  'engine/journal/frame.ts: const bytes = u32At(plain, at + BYTES_AT) => const bytes = u32At(plain, at - BYTES_AT)':
    FIRST_FIELD,
  'engine/journal/frame.ts: readRecords(bytes.subarray(at, end + TRAILER_BYTES), 0, records) => readRecords(bytes.subarray(at, end + TRAILER_BYTES), 1, records)':
    'seqs count from 1, so every record is one from either on',
  'engine/limits.ts: retry_doublings_max: 12, => retry_doublings_max: 13,':
    'the longest wait between attempts that fail is a choice: nine hours or eighteen',
  'protocol/wire/values.ts: return Object.assign(Type.String(options), { [DECODE]: { decode, usable: usable as (value: unknown) => boolean, keeps: false }, }) => return Object.assign({ [DECODE]: { decode, usable: usable as (value: unknown) => boolean, keeps: false }, }, Type.String(options))':
    'the two objects share no key, so the order in which they are joined changes nothing',
  'native/load_ed25519.ts: if (bytes.length < length) bytes = new Uint8Array(2 * length) => if (bytes.length <= length) bytes = new Uint8Array(2 * length)':
    'a buffer of exactly that length is made again, which costs memory alone',
  'engine/machine/book/priority.ts: if (count > handles.length) makeRoom(Math.max(256, 2 * count)) => if (count >= handles.length) makeRoom(Math.max(256, 2 * count))':
    'room is made one order earlier, which costs memory alone',
  'engine/machine/book/priority.ts: let ties = 0 => let ties = 1':
    'the first run is then one that nothing writes: an empty one',
  'engine/machine/book/book.ts: if (tick >= base + (window >> 2) && tick < base + window - (window >> 2)) return => if (tick >= base + (window >> 2) && tick < base + window - (window >> 2)) {}':
    'the window moves with every reference, which costs time alone',
  "engine/journal/snapshot_store.ts: const piece_key = await crypto.subtle.importKey('raw', pieceKey(key, header), 'AES-GCM', false, ['encrypt']) => const piece_key = await crypto.subtle.importKey('raw', pieceKey(key, header), 'AES-GCM', true, ['encrypt'])":
    'no code asks the object for its key',
  'engine/snapshots/scrub_worker.ts: Bun.gc(true) => Bun.gc(false)':
    'what an idle thread leaves is collected later, which costs memory alone',
  'protocol/byte_stream.ts: if (to - from > CACHED_BYTES_MAX) return decodeUtf8(bytes.subarray(from, to)) => if (to - from > CACHED_BYTES_MAX) {}':
    'a cached text is the decoded one; the bound limits memory alone',
  'server/limits.ts: export const LINK_STREAM_FILL_BYTES = LINK_STREAM_BYTES_MAX / 4 => export const LINK_STREAM_FILL_BYTES = LINK_STREAM_BYTES_MAX / 5':
    'how many messages share a frame is a choice: a frame that is sent earlier costs one more',
  'engine/chain/watch/vault_events.ts: if (page.length < PAGE || !before || slots.at(-1)! < window.from) return true => if (page.length < PAGE || !before || slots.at(-2)! < window.from) return true':
    'the page behind has only slots before the window, which are skipped: one read more',
  "engine/reads/public_facts.ts: if (batch_id > last) this.rows.set('landed/last', batch_id) => if (batch_id >= last) this.rows.set('landed/last', batch_id)":
    'at equality the value that is there is written again',
  'engine/history/write_tables.ts: known.set(name, first.length) => {}':
    'a row is written once per event of a batch in place of once per batch, and the last one prevails: time alone',
  'client/chain/deposit.ts: await sleep(NODE_READ_WAIT_FIRST_MS * 2 ** attempt) => await sleep(NODE_READ_WAIT_FIRST_MS * 3 ** attempt)':
    'how long a node gets until it is asked again is a choice',
  'engine/cluster/log_entry.ts: if (tag_at < HEADER_BYTES) return undefined => if (tag_at <= HEADER_BYTES) return undefined':
    'an entry without a body decodes to none',
  'native/src/field.rs: (t[3], t[4]) = multiply_add(top, 0, 0, carry); => (t[3], t[4]) = multiply_add(top, (0 + 1), 0, carry);':
    'one of the two factors is 0, so their product is',
  'native/ed25519/lib.rs: u16::from_le_bytes([key[0], key[1]]) as usize % SETS => u16::from_le_bytes([key[0], key[1]]) as usize / SETS':
    'a set names its keys, so fewer sets cost time alone',
  'native/src/field.rs: (_, carry) = multiply_add(t[0], q, P[0], 0); => (_, carry) = multiply_add(t[0], q, P[0], (0 + 1));':
    'q makes the low word 0, so that one more gives no carry',
  "client/cli/verify.ts: const every_s = Math.max(1, call.count('every', WATCH_VENUE_S, 6)) => const every_s = Math.max(2, call.count('every', WATCH_VENUE_S, 6))":
    'the shortest wait between two looks is a choice',
  'client/cli/tacit.ts: await hashFast() => hashFast()':
    'until the compiled hash is there the pure one gives the same hashes: time alone',
  'client/page/trade_desk.ts: this.drawing = true => {}': 'many events then draw as many times: time alone',
  'program/src/heap.rs: pub const EVENT_BYTES_MAX: usize = 10_240; => pub const EVENT_BYTES_MAX: usize = (10_240 + 1);':
    'the runtime rejects an inner instruction of one byte more, so that event fails either way',
}
