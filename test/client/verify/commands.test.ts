/** The commands that verify, as processes: their output, their exit codes, and the corpus of attacks by `tacit verify`. */

import { afterAll, afterEach, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VenueProblem } from '../../../client/api/venue_client'
import { Call } from '../../../client/cli/call'
import { VENUE_VERBS } from '../../../client/cli/verify'
import { connect } from '../../../client/connect'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import { CHECKS, CHECKS_OF_LEADER, type Transcript } from '../../../client/verify/transcript'
import { decodeLocation } from '../../../protocol/bodies/statements'
import { fromAnyHex } from '../../../protocol/bytes'
import { run as runProgram } from '../../kit/said'
import { ATTACKS, type AttackTerms, prepareAttack } from '../../kit/verify/attack_corpus'
import { openPinnedVenue, type PinnedVenue } from '../../kit/verify/pinned_venue'
import { HAVE_QUOTES, pathOf } from '../../kit/verify/sign_any_quote'
import { changedPolicy, openSite, type Site } from '../../kit/verify/site'
import { TRANSPARENCY } from '../../routes/answers'

const ROOT = join(import.meta.dir, '../../..')
const CLI = join(ROOT, 'client/cli/tacit.ts')
const folder = mkdtempSync(join(tmpdir(), 'tacit-commands-'))
let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterAll(async () => {
  await site.close()
  rmSync(folder, { recursive: true, force: true })
})

const run = (program: string, ...args: string[]) =>
  runProgram([process.execPath, join(ROOT, program), ...args])
function write(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

test('tacit verify accepts an honest venue, keeps the evidence, and judges it again offline', async () => {
  const policy = write('policy.json', JSON.stringify(site.policy))
  const collateral = write('collateral.json', JSON.stringify(site.machine.agent.collateral()))
  const bundle = join(folder, 'bundle.json')
  const given = ['--policy', policy, '--collateral', collateral]
  const live = await run('client/cli/tacit.ts', 'verify', site.url, ...given, '--bundle', bundle, '--json')
  expect(live.error).toBe('')
  expect(live.code).toBe(0)
  expect(JSON.parse(live.out)).toMatchObject({ verdict: 'partial', source: 'live', intel_root: false })
  const offline = await run('client/cli/tacit.ts', 'verify', '--offline', bundle, '--policy', policy)
  expect(offline.code).toBe(0)
  const nowhere = ['--offline', bundle, '--policy', policy, '--bundle', join(folder, 'no/where')]
  const unkept = await run('client/cli/tacit.ts', 'verify', ...nowhere)
  expect(unkept.code).toBe(74)
  expect(unkept.error).toStartWith(`${join(folder, 'no/where')} cannot be written`)
  expect(unkept.out).toBe(offline.out)
  expect(offline.out).toContain('PARTIAL, accepted: the policy permits the 12 skips, 17 passed, 0 failed')
  const named = offline.out.match(/^not checked: \w+, because the policy .*$/gm) ?? []
  expect(offline.out.match(/^not checked: /gm)).toHaveLength(12)
  expect(named).toContain('not checked: os_image, because the policy names no operating system')
  const other = write('other.json', JSON.stringify({ ...site.policy, compose_hashes: ['00'.repeat(32)] }))
  const refused = await run('client/cli/tacit.ts', 'verify', '--offline', bundle, '--policy', other)
  expect(refused.code).toBe(1)
  expect(refused.out).toMatch(/3\.1 FAIL/)
  const strict = write('strict.json', JSON.stringify({ ...site.policy, permitted_skips: [] }))
  expect((await run('client/cli/tacit.ts', 'verify', '--offline', bundle, '--policy', strict)).code).toBe(2)
  const damaged = write('damaged.json', readFileSync(bundle, 'utf8').replace('"nonce": "', '"nonce": "f'))
  expect((await run('client/cli/tacit.ts', 'verify', '--offline', damaged, '--policy', policy)).code).toBe(1)
})

test("a venue's text adds no line to the output of tacit, and a stale reading is marked", async () => {
  const policy = write('policy.json', JSON.stringify(site.policy))
  const collateral = write('collateral.json', JSON.stringify(site.machine.agent.collateral()))
  const forged = 'x\naccepted  all is well\r\u2028\u001b[2K'
  const admin = { pending: [{ action: forged, effective_unix_s: 5, value: forged }] }
  const announced = [{ list: forged, id: forged, value: '' }]
  const reading = { slot: 7, age_ms: 61_001, stale: true }
  const mints = TRANSPARENCY.mints.map((mint) => ({ ...mint, mint: forged, stale: true }))
  site.answers.set('/transparency', () =>
    JSON.stringify({ ...TRANSPARENCY, admin, announced, reading, mints }),
  )
  site.answers.set('/instruments', () => '[]')
  const given = [site.url, '--policy', policy, '--collateral', collateral]
  for (const [verb, ...more] of [['transparency'], ['watch-venue', '--once']]) {
    const shown = await run('client/cli/tacit.ts', verb!, ...given, ...more)
    expect([shown.code, shown.error]).toEqual([0, ''])
    expect(shown.out).toContain('x\\u000aaccepted  all is well\\u000d\\u2028\\u001b[2K')
    expect(shown.out).not.toMatch(/^accepted/m)
    expect(shown.out).toMatch(/slot 7, read 62 s ago and not since|reading stale since slot 7/)
  }
  const problem = { code: 'rate_limited', message: forged, status: 400, applied: 'no', remedy: '' }
  const refusal = new VenueProblem(problem as never)
  expect(refusal.message).toBe('rate_limited: x\\u000aaccepted  all is well\\u000d\\u2028\\u001b[2K')
  site.restore()
})

test('tacit verify without evidence or with a wrong call says so', async () => {
  expect((await run('client/cli/tacit.ts', 'verify', 'https://127.0.0.1:1')).code).toBe(3)
  // In a folder without ./data, where 'start' may have left a venue.
  for (const args of [
    [],
    ['verify'],
    ['verify', 'http://127.0.0.1'],
    ['verify', 'https://['],
    ['verify', '--nonsense'],
    ['trade'],
  ])
    expect((await runProgram([process.execPath, CLI, ...args], { cwd: folder })).code).toBe(64)
  const policy = write('faulty.json', '{"compose_hash":[]}')
  const faulty = await run('client/cli/tacit.ts', 'verify', site.url, '--policy', policy)
  expect([faulty.code, faulty.error]).toEqual([64, 'the policy has an unknown field compose_hash\n'])
  const drawing = write('drawing.json', '{"\\u001b[2J\\u009b1m\\u202eVERIFIED":1}')
  const drawn = await run('client/cli/tacit.ts', 'verify', site.url, '--policy', drawing)
  expect([drawn.code, drawn.error]).toEqual([
    64,
    'the policy has an unknown field \\u001b[2J\\u009b1m\\u202eVERIFIED\n',
  ])
})

test.skipIf(!HAVE_QUOTES)('verify-quote accepts a real quote at its time and rejects it later', async () => {
  const given = ['--quote', pathOf('dcap-qvl-b0c06f/quote.bin')]
  given.push('--collateral', pathOf('dcap-qvl-b0c06f/collateral.json'))
  const verify = (...more: string[]) => run('client/cli/tacit.ts', 'verify-quote', ...given, ...more)
  const accepted = await verify('--now', '2025-06-19T12:16:03Z')
  expect(accepted.code).toBe(0)
  expect(JSON.parse(accepted.out)).toMatchObject({
    verdict: 'accept',
    tcb_status: 'UpToDate',
    advisories: 'none',
    intel_root: true,
  })
  const late = await verify('--now', '2025-09-01T00:00:00Z')
  expect([late.code, JSON.parse(late.out).verdict]).toEqual([1, 'reject'])
  const root = write('root.pem', site.machine.agent.root_pem)
  const other_root = await verify('--now', '2025-06-19T12:16:03Z', '--root', root)
  expect(JSON.parse(other_root.out)).toEqual({ verdict: 'reject', reason: 'the root is not trusted' })
  expect(JSON.parse((await verify('--now', 'yesterday')).out).verdict).toBe('reject')
})

test('verify-quote takes a development quote only under its root', async () => {
  const quote = write('attestation.json', await site.answers.get('/attestation')!(undefined))
  const collateral = write('development.json', JSON.stringify(site.machine.agent.collateral()))
  const root = write('development-root.pem', site.machine.agent.root_pem)
  const given = ['--quote', quote, '--collateral', collateral]
  const accepted = await run('client/cli/tacit.ts', 'verify-quote', ...given, '--root', root)
  expect(JSON.parse(accepted.out)).toMatchObject({ verdict: 'accept', intel_root: false })
  const { root_pem: roots_pem } = site.machine.agent
  const policy = write('rooted.json', JSON.stringify({ ...site.policy, roots_pem }))
  const rooted = await run('client/cli/tacit.ts', 'verify-quote', ...given, '--policy', policy)
  expect(JSON.parse(rooted.out)).toMatchObject({ verdict: 'accept', intel_root: false })
  const refused = await run('client/cli/tacit.ts', 'verify-quote', ...given)
  expect(JSON.parse(refused.out)).toEqual({ verdict: 'reject', reason: 'the root is not trusted' })
  expect((await run('client/cli/tacit.ts', 'verify-quote')).code).toBe(64)
}, 120_000)

test('verify-eventlog compares a log with its quote', async () => {
  const answer = JSON.parse(await site.answers.get('/attestation')!(undefined))
  const honest = await run(
    'client/cli/tacit.ts',
    'verify-eventlog',
    write('honest.json', JSON.stringify(answer)),
  )
  expect(JSON.parse(honest.out)).toMatchObject({ verdict: 'accept', mr_config_id: 'compose_hash' })
  const alone = await run('client/cli/tacit.ts', 'verify-eventlog', write('log.json', answer.event_log))
  expect(JSON.parse(alone.out).reason).toMatch(/no quote/)
  const events = JSON.parse(answer.event_log)
  const cut = { ...answer, event_log: JSON.stringify(events.slice(1)) }
  const refused = await run('client/cli/tacit.ts', 'verify-eventlog', write('cut.json', JSON.stringify(cut)))
  expect([refused.code, JSON.parse(refused.out).reason]).toEqual([1, 'the event log does not lead to RTMR0'])
  const none = await run('client/cli/tacit.ts', 'verify-eventlog', write('none.json', 'text'))
  expect(JSON.parse(none.out).verdict).toBe('reject')
  for (const args of [['verify-eventlog'], ['verify-quote', '--collateral', 'x', '--quote']]) {
    const missing = await run('client/cli/tacit.ts', ...args, '/no/such/file')
    expect([missing.code, JSON.parse(missing.out).reason]).toEqual([
      1,
      expect.stringMatching(/cannot be read$/),
    ])
  }
})

test.skipIf(!HAVE_QUOTES)('verify-eventlog replays the logs of real machines', async () => {
  for (const folder_name of ['dstack-0.5-90c06f', 'dstack-0.6-lite']) {
    const { code, out } = await run(
      'client/cli/tacit.ts',
      'verify-eventlog',
      pathOf(`${folder_name}/getquote.json`),
    )
    expect([code, JSON.parse(out).verdict]).toEqual([0, 'accept'])
  }
})

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

const attackFolder = mkdtempSync(join(tmpdir(), 'tacit-corpus-'))
let venue: PinnedVenue
beforeAll(async () => {
  venue = await openPinnedVenue()
})
afterEach(() => venue.restore())
afterAll(async () => {
  await venue.close()
  rmSync(attackFolder, { recursive: true, force: true })
})

function attackWrite(name: string, content: unknown): string {
  const path = join(attackFolder, name)
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
  const options = files.flatMap((name) => [`--${name}`, attackWrite(`${name}.json`, given[name])])
  return verify(venue.site.url, ...options, ...more)
}

const failed = ({ checks }: Transcript): string[] =>
  checks.filter(({ result }) => result === 'fail').map(({ number }) => number)

test('the honest venue passes every check, without a skip', async () => {
  const bundle = join(attackFolder, 'bundle.json')
  const { code, said } = await verifyVenue({}, '--bundle', bundle)
  expect(said.checks.filter(({ result }) => result !== 'pass')).toEqual([])
  expect([code, said.verdict, said.checks.length]).toEqual([0, 'verified', CHECKS_OF_LEADER.length])
  // Contract, statements and files are in the bundle: the same policy is fulfilled without any of their servers.
  const policy = attackWrite('offline.json', venue.policy)
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
