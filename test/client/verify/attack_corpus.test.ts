/** Runs the corpus of attacks by `tacit verify` and prints its figure. */
import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Call } from '../../../client/cli/call'
import { VENUE_VERBS } from '../../../client/cli/verify'
import { connect } from '../../../client/connect'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import { CHECKS, CHECKS_OF_LEADER, type Transcript } from '../../../client/verify/transcript'
import { decodeLocation } from '../../../protocol/bodies/statements'
import { fromAnyHex } from '../../../protocol/bytes'
import { ATTACKS, type AttackTerms, prepareAttack } from '../../kit/verify/attack_corpus'
import { changedPolicy } from '../../kit/verify/changed_policy'
import { openPinnedVenue, type PinnedVenue } from '../../kit/verify/pinned_venue'

/** The name of each check and of the values that it reads. */
const VALUES = [
  'collateral root valid_until revoked_pcks',
  'quote version fmspc ppid mr_seam',
  'platform tcb_status tcb_date advisories tcb_evaluation_number',
  'machine td_attributes xfam',
  'xfam xfam mask',
  'enclave enclave',
  'registers events rtmr3',
  'claims app_id instance_id key_provider',
  'mr_config_id form',
  'app app_id',
  'key_provider name id',
  'compose_hash compose_hash',
  'manifest bytes',
  'rpc_operators operators',
  'os_image mrtd rtmr0 rtmr1 rtmr2 by',
  'report_data tee_pubkey nonce',
  'binding venue epoch slot statement_key',
  'tls_key spki_sha256',
  'evidence files',
  'settlement_signer config_account settlement_signer epoch generation compose_hash read_at_slot',
  'vault_state admin paused pending exit_delay_s',
  'program program_sha256 upgrade_authority',
  'kms contract',
  'kms_owner owner min_delay_s',
  'exit_delay exit_delay_s',
  'admin admin',
  'announced attestation_root builds machines images epoch_authority later',
  'machine_list ppid',
  'location provider inspector',
]

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
    const verb = VENUE_VERBS['verify']!
    const code = Number(await verb.run(new Call(verb, [...args, '--json'])))
    return { code, said: JSON.parse(String(printed.mock.calls[0]![0])) as Transcript }
  } finally {
    printed.mockRestore()
  }
}

function verifyVenue(attack: AttackTerms = {}, ...more: string[]) {
  const given = prepareAttack(venue, attack)
  const files = ['policy', 'collateral', 'manifest'] as const
  const options = files.flatMap((name) => [`--${name}`, write(`${name}.json`, given[name])])
  return verify(venue.site.url, ...options, ...more)
}

const failed = ({ checks }: Transcript): string[] =>
  checks.filter(({ result }) => result === 'fail').map(({ number }) => number)

test('the honest venue passes every check, without a skip', async () => {
  const bundle = join(folder, 'bundle.json')
  const { code, said } = await verifyVenue({}, '--bundle', bundle)
  expect(said.checks.filter(({ result }) => result !== 'pass')).toEqual([])
  expect([code, said.verdict, said.checks.length]).toEqual([0, 'verified', CHECKS_OF_LEADER.length])
  // Contract, statements and files are in the bundle: the same policy is fulfilled without any of their servers.
  const policy = write('offline.json', venue.policy)
  const again = await verify('--offline', bundle, '--policy', policy)
  expect({ ...again.said, source: 'live' }).toEqual(said)
  expect(again.code).toBe(0)
})

test('the checks are the documented ones, and each lists the values that it read', async () => {
  const { checks } = (await verifyVenue()).said
  const document = readFileSync('docs/design/attestation.md', 'utf8')
  const rows = [...document.matchAll(/^\| (\d\.\d) \| `(\w+)` \| (.*) \|$/gm)].map(([, ...row]) => row)
  const shown = checks.map(({ number, name, statement }) => [number, name, statement] as string[])
  expect(CHECKS.map((check) => [...check] as string[])).toEqual(rows)
  expect(shown).toEqual(rows.filter(([, name]) => name !== 'following'))
  expect(checks.map(({ name, values }) => [name, ...Object.keys(values)].join(' '))).toEqual(VALUES)
})

test.each([
  ['xfam_mask', 'xfam_unpinned', 'the policy names no processor features'],
  ['ppids', 'machines_unpinned', 'the policy lists no machines'],
  ['location', 'location_unnamed', 'the policy names no authority for locations'],
  ['rpc_operators', 'rpc_operators_unpinned', 'the policy names no RPC operators'],
  ['kms', 'kms_without_contract', 'the policy names no KMS contract'],
] as const)(
  '%s left out is a skip with the code %s, and no other code permits it',
  async (field, code, reason) => {
    const left_out = { [field]: undefined }
    const judged = (change: object) => verifyVenue({ policy: () => ({ ...left_out, ...change }) })
    const refused = await judged({})
    const skipped = refused.said.checks.filter(({ result }) => result === 'skipped')
    expect([refused.code, [...new Set(skipped.map(({ reason_code }) => reason_code))]]).toEqual([2, [code]])
    expect([...new Set(skipped.map((check) => check.reason.split(';')[0]))]).toEqual([reason])
    expect((await judged({ permitted_skips: [code] })).code).toBe(0)
    expect((await judged({ permitted_skips: ['keys_without_kms', 'admin_unpinned'] })).code).toBe(2)
  },
)

test('of the manifests of two builds each machine is judged by its own, and one that is neither fails', async () => {
  const { policy } = prepareAttack(venue, {})
  const collateral = venue.site.machine.agent.collateral()
  const { app_compose } = venue
  const other = app_compose.replace(/:[0-9a-f]{64}/, `:${'cd'.repeat(32)}`)
  expect(other).not.toBe(app_compose)
  const { transcript } = await connect(venue.site.url, policy, {
    collateral,
    app_compose: [other, app_compose],
  })
  expect(transcript.checks.find(({ name }) => name === 'manifest')!.result).toBe('pass')
  const failed = connect(venue.site.url, policy, { collateral, app_compose: [other, `${other} `] })
  const { code, facts } = await failed.then(
    () => expect.unreachable(),
    (error) => error,
  )
  expect([code, facts.failed]).toEqual(['verification_failed', ['manifest', 'rpc_operators']])
})

test('a statement about a place holds from its first to its last second', async () => {
  // Later than the collateral, whose own period would decide otherwise.
  const issued = { issued_s: BigInt(Math.floor(Date.now() / 1000)) - 30n }
  const { policy } = prepareAttack(venue, {
    prepare: ({ authority }) => void Object.assign(authority, { change: issued }),
  })
  const [provider] = policy.location!.authorities
  const alone = changedPolicy(policy, { location: { authorities: [provider], minimum: 1 } })
  const collateral = venue.site.machine.agent.collateral()
  const { app_compose } = venue
  const { evidence } = await connect(venue.site.url, policy, { collateral, app_compose })
  expect(evidence.missing).toEqual({})
  const body = evidence.location.find(({ authority }) => authority === provider!.name)!.body
  const { issued_s, expires_s } = decodeLocation(fromAnyHex(body)!)
  const judgedAt = async (now_ms: number) => {
    const { checks } = await judgeEvidence({ ...evidence, now_ms }, alone, 'recorded')
    return checks.find(({ name }) => name === 'location')!.reason
  }
  const [first_ms, last_ms] = [Number(issued_s) * 1000, Number(expires_s) * 1000]
  expect([await judgedAt(first_ms), await judgedAt(last_ms + 999)]).toEqual(['', ''])
  expect(await judgedAt(first_ms - 1)).toMatch(/from the future/)
  expect(await judgedAt(last_ms + 1000)).toMatch(/has expired/)
})

describe('corpus', () => {
  let refused = 0
  for (const { name, check, reason = '', ...attack } of ATTACKS)
    test(name, async () => {
      const { code, said } = await verifyVenue(attack)
      expect(failed(said)).toContain(check)
      expect(said.checks.find(({ number }) => number === check)!.reason).toContain(reason)
      expect(code).toBe(1)
      refused++
    })
  afterAll(() => console.log(`attack corpus: ${refused} of ${ATTACKS.length} attacks refused`))
})
