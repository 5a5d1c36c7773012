/**
 * Runs the corpus of attacks: each is a venue that differs from an honest one in one point, judged by `tacit verify`, and must
 * fail the check that exists for this point. Prints the corpus figure.
 */
import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runVerify } from '../../../client/cli/verify'
import type { ChainPolicy, KmsPolicy, VerificationPolicy } from '../../../client/verify/policy'
import { CHECKS, type Transcript } from '../../../client/verify/transcript'
import { toHex, utf8 } from '../../../protocol/bytes'
import { forgeLog } from '../../kit/verify/forged_log'
import { type Lie, mrConfigId, withClaim } from '../../kit/verify/lying_machine'
import { openPinnedVenue, type PinnedVenue } from '../../kit/verify/pinned_venue'

type Attack = {
  name: string
  /** Number of the check that must fail. */
  check: string
  lie?: Lie
  /** The authority, contract or a second policy demand that the attack falsifies. */
  prepare?: (venue: PinnedVenue) => void
  /** Demands instead of those that the honest venue fulfils. */
  policy?: (policy: VerificationPolicy) => Partial<VerificationPolicy>
}

const folder = mkdtempSync(join(tmpdir(), 'tacit-corpus-'))
let venue: PinnedVenue
beforeAll(async () => {
  venue = await openPinnedVenue()
})
afterEach(() => venue.restore())
afterAll(async () => {
  await venue.close()
  rmSync(folder, { recursive: true, force: true })
})

function write(name: string, content: unknown): string {
  const path = join(folder, name)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

/** `tacit verify` in this process. */
async function verify(...args: string[]): Promise<{ code: number; said: Transcript }> {
  const printed = spyOn(console, 'log').mockImplementation(() => {})
  try {
    const code = await runVerify([...args, '--json'])
    return { code, said: JSON.parse(String(printed.mock.calls[0]![0])) as Transcript }
  } finally {
    printed.mockRestore()
  }
}

function verifyVenue(change: Partial<VerificationPolicy> = {}, ...more: string[]) {
  const policy = write('policy.json', { ...venue.policy, ...change })
  const collateral = write('collateral.json', venue.site.machine.agent.collateral())
  const manifest = write('app-compose.json', venue.app_compose)
  const given = ['--policy', policy, '--collateral', collateral, '--manifest', manifest]
  return verify(venue.site.url, ...given, ...more)
}

const failed = ({ checks }: Transcript): string[] =>
  checks.filter(({ result }) => result === 'fail').map(({ number }) => number)

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
  { name: 'a machine under an empty list', check: '7.1', policy: () => ({ ppids: [] }) },
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
  { name: 'an app id under an empty list', check: '2.4', policy: () => ({ app_ids: [] }) },
  { name: 'a KMS under an empty list', check: '2.5', policy: () => ({ key_providers: [] }) },
  { name: 'an owner of the contract under an empty list', check: '6.5', policy: kms({ owners: [] }) },
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
  { name: 'an administrator under an empty list', check: '6.7', policy: chain({ admins: [] }) },
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
    policy: () => ({ roots_pem: undefined as never }),
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
PLACES.push({
  name: 'a statement of a level that the policy does not accept',
  check: '7.2',
  policy: ({ location }) => ({
    location: {
      authorities: location!.authorities.map((one) => ({ ...one, levels: ['inspected'] }) as typeof one),
      minimum: 1,
    },
  }),
})
PLACES.push({
  name: 'a machine outside the pinned list',
  check: '7.2',
  policy: () => ({ location: { authorities: [{ name: 'ours', ppids: ['00'.repeat(16)] }], minimum: 1 } }),
})
const ATTACKS = [...MACHINES, ...KEYS, ...VENUE, ...PLACES]

test('the honest venue passes every check, without a skip', async () => {
  venue.answerAs()
  const bundle = join(folder, 'bundle.json')
  const { code, said } = await verifyVenue({}, '--bundle', bundle)
  expect(said.checks.filter(({ result }) => result !== 'pass')).toEqual([])
  expect([code, said.verdict, said.checks.length]).toEqual([0, 'verified', CHECKS.length])
  // Contract, statements and files are in the bundle: the same policy is fulfilled without any of their servers.
  const policy = write('offline.json', venue.policy)
  const again = await verify('--offline', bundle, '--policy', policy)
  expect({ ...again.said, source: 'live' }).toEqual(said)
  expect(again.code).toBe(0)
})

test('every demand that is left out is a skip with a code, and only its own code permits it', async () => {
  venue.answerAs()
  const demands = {
    xfam_mask: 'xfam_unpinned',
    ppids: 'machines_unpinned',
    location: 'location_unnamed',
    rpc_operators: 'rpc_operators_unpinned',
    kms: 'kms_without_contract',
  } as const
  for (const [field, code] of Object.entries(demands)) {
    const left_out = { [field]: undefined }
    const refused = await verifyVenue(left_out)
    const skipped = refused.said.checks.filter(({ result }) => result === 'skipped')
    expect([refused.code, [...new Set(skipped.map(({ reason_code }) => reason_code))]]).toEqual([2, [code]])
    expect((await verifyVenue({ ...left_out, permitted_skips: [code] })).code).toBe(0)
    expect(
      (await verifyVenue({ ...left_out, permitted_skips: ['keys_without_kms', 'admin_unpinned'] })).code,
    ).toBe(2)
  }
})

describe('corpus', () => {
  let refused = 0
  for (const { name, check, lie = {}, prepare, policy } of ATTACKS)
    test(name, async () => {
      venue.answerAs(lie)
      prepare?.(venue)
      const { code, said } = await verifyVenue(policy?.(venue.policy))
      expect(failed(said)).toContain(check)
      expect(code).toBe(1)
      refused++
    })
  afterAll(() => console.log(`attack corpus: ${refused} of ${ATTACKS.length} attacks refused`))
})
