/** The auditors' commands, as processes: what they print and how they exit. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VenueProblem } from '../../../client/api/venue_client'
import { HAVE_QUOTES, pathOf } from '../../kit/verify/real_quotes'
import { openSite, type Site } from '../../kit/verify/site'
import { TRANSPARENCY } from '../../routes/answers'

const ROOT = join(import.meta.dir, '../../..')
const folder = mkdtempSync(join(tmpdir(), 'tacit-commands-'))
let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterAll(async () => {
  await site.close()
  rmSync(folder, { recursive: true, force: true })
})

async function run(program: string, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const command = [process.execPath, join(ROOT, program), ...args]
  const child = Bun.spawn(command, { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  return { code: await child.exited, out, err }
}
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
  expect(live.err).toBe('')
  expect(live.code).toBe(0)
  expect(JSON.parse(live.out)).toMatchObject({ verdict: 'partial', source: 'live', intel_root: false })
  const offline = await run('client/cli/tacit.ts', 'verify', '--offline', bundle, '--policy', policy)
  expect(offline.code).toBe(0)
  const nowhere = ['--offline', bundle, '--policy', policy, '--bundle', join(folder, 'no/where')]
  const unkept = await run('client/cli/tacit.ts', 'verify', ...nowhere)
  expect(unkept.code).toBe(74)
  expect(unkept.err).toStartWith(`${join(folder, 'no/where')} cannot be written`)
  expect(unkept.out).toBe(offline.out)
  expect(offline.out).toContain('PARTIAL: 17 passed, 0 failed, 12 skipped')
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

test('what a venue writes makes no line in the output of tacit, and a stale reading says so', async () => {
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
    expect([shown.code, shown.err]).toEqual([0, ''])
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
  for (const args of [
    [],
    ['verify'],
    ['verify', 'http://127.0.0.1'],
    ['verify', 'https://['],
    ['verify', '--nonsense'],
    ['trade'],
  ])
    expect((await run('client/cli/tacit.ts', ...args)).code).toBe(64)
  const policy = write('faulty.json', '{"compose_hash":[]}')
  const faulty = await run('client/cli/tacit.ts', 'verify', site.url, '--policy', policy)
  expect([faulty.code, faulty.err]).toEqual([64, 'the policy has an unknown field compose_hash\n'])
  const drawing = write('drawing.json', '{"\\u001b[2J\\u009b1m\\u202eVERIFIED":1}')
  const drawn = await run('client/cli/tacit.ts', 'verify', site.url, '--policy', drawing)
  expect([drawn.code, drawn.err]).toEqual([
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
