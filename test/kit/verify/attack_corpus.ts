/**
 * States the corpus of attacks: each is a venue that differs from an honest one in one point, and must fail the check that
 * exists for this point, on the command line and on the page.
 */
import type { ChainPolicy, KmsPolicy, VerificationPolicy } from '../../../client/verify/policy'
import { fromHex, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { HOST_ACCESS } from './hostile_compose'
import { manifestOf } from './hostile_manifests'
import { forgeLog, type Lie, mrConfigId, withClaim } from './lying_machine'
import { INSPECTOR, type Inspection, type PinnedVenue } from './pinned_venue'
import { changedPolicy } from './site'

type Attack = AttackTerms & {
  name: string
  /** Number of the check that must fail, and words of its reason. */
  check: string
  reason?: string
}
export type AttackTerms = {
  lie?: Lie
  /** The authority, contract or a second policy demand that the attack falsifies. */
  prepare?: (venue: PinnedVenue) => void
  /** Demands that replace the ones of the honest venue. */
  policy?: (policy: VerificationPolicy) => {
    [K in keyof VerificationPolicy]?: VerificationPolicy[K] | undefined
  }
  /** The manifest that the machine measured and the policy pins. */
  manifest?: string
}

/** Makes the venue answer as the attack does. @returns the client's side of the verification */
export function prepareAttack(
  venue: PinnedVenue,
  { lie = {}, prepare, policy, manifest }: AttackTerms = {},
): { policy: VerificationPolicy; manifest: string; collateral: string } {
  const compose_hash = manifest === undefined ? undefined : toHex(sha256(utf8(manifest)))
  venue.answerAs(compose_hash === undefined ? lie : measured(compose_hash))
  prepare?.(venue)
  const pinned = compose_hash === undefined ? {} : { compose_hashes: [compose_hash] }
  return {
    policy: changedPolicy(venue.policy, { ...pinned, ...policy?.(venue.policy) }),
    manifest: manifest ?? venue.app_compose,
    collateral: JSON.stringify(venue.site.machine.agent.collateral()),
  }
}

/** A machine that booted this manifest and commits to it. */
const measured = (compose_hash: string): Lie => ({
  log: withClaim('compose-hash', compose_hash),
  quote: { body: mrConfigId(new Uint8Array(fromHex(`01${compose_hash}`.padEnd(96, '0'), 48)!)) },
  info: { compose_hash },
})

/** A machine of another build whose boot events of register 3 are shown under this type. */
const forged = (type: number): Lie => ({
  log: (honest) => forgeLog(honest, type),
  quote: { body: mrConfigId() },
})
/** Both quotes with bits set in the TD report. */
const bits = (at: number, value: number): Lie => ({
  quote: {
    body: (body) => {
      body[at]! |= value
    },
  },
})
const provider = (name: string, id: string): Lie => ({
  log: withClaim('key-provider', toHex(utf8(JSON.stringify({ name, id })))),
})
const chain = (change: Partial<ChainPolicy>) => (policy: VerificationPolicy) => ({
  chain: { ...policy.chain!, ...change },
})
const kms = (change: Partial<KmsPolicy>) => (policy: VerificationPolicy) => ({
  kms: { ...policy.kms!, ...change },
})
const OTHER_KEY = 'So11111111111111111111111111111111111111112'
const OTHER_APP = '77'.repeat(20)
const TD_ATTRIBUTES_AT = 120
const XFAM_AT = 128
const HOUR_S = 3_600n
const now_s = () => BigInt(Math.floor(Date.now() / 1000))

const MACHINES: Attack[] = [
  ...[0, 1, 6, 0x8000_0007, 0xffff_ffff].map((type) => ({
    name: `boot events relabelled as type ${type}`,
    check: '2.1',
    lie: forged(type),
  })),
  { name: 'a machine under debug', check: '1.4', lie: bits(TD_ATTRIBUTES_AT, 1) },
  { name: 'a migratable machine', check: '1.4', lie: bits(TD_ATTRIBUTES_AT + 3, 0x20) },
  { name: 'performance monitoring', check: '1.4', lie: bits(TD_ATTRIBUTES_AT + 7, 0x80) },
  { name: 'a TDX module with attributes', check: '1.4', lie: bits(112, 1) },
  { name: 'a TDX module of another signer', check: '1.4', lie: bits(64, 1) },
  { name: 'processor features that the policy does not name', check: '1.5', lie: bits(XFAM_AT + 3, 1) },
  { name: 'registers of an image with other features', check: '4.1', lie: bits(XFAM_AT + 3, 1) },
  {
    name: 'a debug quoting enclave',
    check: '1.2',
    lie: { quote: { qe_report: (report) => report.fill(0x17, 48, 49) } },
  },
  { name: 'MRCONFIGID with padding', check: '2.3', lie: bits(184 + 40, 1) },
  {
    name: 'MRCONFIGID of another document',
    check: '2.3',
    lie: { quote: { body: mrConfigId(new Uint8Array(48).fill(9, 1, 33).with(0, 3)) } },
  },
  { name: 'a machine that is not listed', check: '7.1', policy: () => ({ ppids: ['00'.repeat(16)] }) },
]
const KEYS: Attack[] = [
  { name: 'a KMS that the host runs', check: '2.5', lie: provider('kms', '3059'.repeat(19)) },
  {
    name: 'a provider of the pinned id under another name',
    check: '2.5',
    lie: provider('local-sgx', '3059'.repeat(20)),
  },
  {
    name: 'a provider with an id where the policy pins an empty one',
    check: '2.5',
    lie: provider('local-sgx', 'ab'),
    policy: () => ({ key_providers: [{ name: 'local-sgx', id: '' }] }),
  },
  { name: 'no KMS at all', check: '2.5', lie: provider('none', '') },
  {
    name: "another app id, with the host's own contract",
    check: '2.4',
    lie: { log: withClaim('app-id', OTHER_APP), info: { app_id: OTHER_APP } },
  },
  {
    name: 'a contract that does not allow the build',
    check: '6.4',
    prepare: ({ contract }) => Object.assign(contract, { allowed: false }),
  },
  { name: 'another owner of the contract', check: '6.5', policy: kms({ owners: [`0x${'0b'.repeat(20)}`] }) },
  {
    name: 'a timelock that is too short',
    check: '6.5',
    prepare: ({ contract }) => Object.assign(contract, { min_delay_s: 3_600 }),
  },
  {
    name: 'an owner that is no timelock',
    check: '6.5',
    prepare: ({ contract }) => Object.assign(contract, { min_delay_s: undefined }),
  },
  {
    name: 'a node that does not answer about the contract',
    check: '6.4',
    policy: kms({ rpc_url: 'http://127.0.0.1:1' }),
  },
]
const VENUE: Attack[] = [
  { name: 'a short exit delay', check: '6.6', policy: chain({ exit_delay_min_s: 2 ** 31 }) },
  { name: 'an exit delay stated longer than it is', check: '6.6', lie: { info: { exit_delay_s: 2 ** 31 } } },
  { name: 'another administrator', check: '6.7', policy: chain({ admins: [OTHER_KEY] }) },
  {
    name: 'a foreign RPC operator',
    check: '3.3',
    policy: () => ({
      rpc_operators: { operators: [{ name: 'one', hosts: ['rpc.one.example'] }], minimum: 1 },
    }),
  },
  {
    name: 'two hosts of one RPC operator',
    check: '3.3',
    policy: ({ rpc_operators }) => ({
      rpc_operators: {
        operators: [
          { name: 'one', hosts: rpc_operators!.operators.flatMap(({ hosts }) => hosts) },
          { name: 'idle', hosts: ['idle.example'] },
        ],
        minimum: 2,
      },
    }),
  },
  {
    name: 'a simulated enclave whose root the policy does not name',
    check: '1.6',
    lie: { attestation: (attestation) => Object.assign(attestation, { enclave: 'development' }) },
    policy: () => ({ roots_pem: undefined }),
  },
  {
    name: 'an enclave of an unknown kind',
    check: '1.6',
    reason: 'unknown kind',
    lie: { attestation: (attestation) => Object.assign(attestation, { enclave: 'sgx' }) },
  },
  {
    name: 'a simulated enclave that states hardware',
    check: '1.6',
    lie: { attestation: (attestation) => Object.assign(attestation, { enclave: 'dstack' }) },
  },
]
const PLACES: Attack[] = (
  [
    ['a statement about another machine', { change: { ppid: new Uint8Array(16) } }],
    ['a statement about another instance', { change: { instance_id: new Uint8Array(20) } }],
    ['an expired statement', { change: { expires_s: now_s() - HOUR_S } }],
    ['a statement from the future', { change: { issued_s: now_s() + HOUR_S } }],
    ['a statement signed by another key', { seed: new Uint8Array(32).fill(1) }],
    ['an authority that does not answer', { silent: true }],
  ] as const
).map(([name, change]) => ({
  name,
  check: '7.2',
  prepare: ({ authority }) => void Object.assign(authority, change),
}))
const OTHER = new Uint8Array(32).fill(1)
const LOGS: Attack[] = (
  [
    ['a statement that its log does not have', { logged: false }, 'not in its log'],
    ['a log that is not the one the policy has seen', { history: 1 }, 'does not extend the pinned head'],
    [
      'a head of the log signed by another key',
      { seeds: { ...INSPECTOR, log: OTHER } },
      'head of its log is not signed',
    ],
    [
      'a logged statement signed by another key',
      { seeds: { ...INSPECTOR, key: OTHER } },
      'statement is not signed by its key',
    ],
    [
      'a logged statement of a machine that is not inspected',
      { change: { level: 'registry' } },
      'level registry',
    ],
    ['a logged statement about another machine', { change: { ppid: new Uint8Array(16) } }, 'another machine'],
    ['an expired logged statement', { change: { expires_s: now_s() - HOUR_S } }, 'has expired'],
    ['no proof of the log', { alter: (statement) => void delete statement.log }, 'gives no proof'],
    ['a proof of another place in the log', { alter: ({ log }) => void log!.index++ }, 'not in its log'],
    ['a proof without a path', { alter: ({ log }) => Object.assign(log!, { path: '' }) }, 'not in its log'],
    [
      'a proof with half a node',
      { alter: ({ log }) => Object.assign(log!, { path: log!.path.slice(2) }) },
      'malformed',
    ],
    [
      'a proof that is no hex',
      { alter: ({ log }) => Object.assign(log!, { consistency: 'none' }) },
      'the proof of its log is malformed',
    ],
    [
      'a log that proves no growth',
      { alter: ({ log }) => Object.assign(log!, { consistency: '' }) },
      'does not extend',
    ],
  ] as [string, Partial<Inspection>, string][]
).map(([name, change, reason]) => ({
  name,
  reason,
  check: '7.2',
  prepare: ({ inspection }) => void Object.assign(inspection, change),
}))
PLACES.push({
  name: 'a statement of a level that the policy does not accept',
  check: '7.2',
  policy: ({ location }) => ({
    location: { authorities: [{ ...location!.authorities[0]!, levels: ['inspected'] } as never], minimum: 1 },
  }),
})
PLACES.push({
  name: 'a machine outside the pinned list',
  check: '7.2',
  policy: () => ({ location: { authorities: [{ name: 'ours', ppids: ['00'.repeat(16)] }], minimum: 1 } }),
})
const MANIFESTS: Attack[] = HOST_ACCESS.map(([name, compose]) => ({
  name: `a manifest with ${name}`,
  check: '3.2',
  manifest: manifestOf(compose, { key_provider_id: '3059'.repeat(20) }),
}))
export const ATTACKS: readonly Attack[] = [...MACHINES, ...KEYS, ...VENUE, ...PLACES, ...LOGS, ...MANIFESTS]
