/** `connect` gives a transport to an honest venue, and to nobody else. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { connect } from '../../../client/connect'
import { VerificationFailed } from '../../../client/verified_venue'
import { EvidenceUnavailable } from '../../../client/verify/collect/collect_venue'
import { parseBundle } from '../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import { CHECKS, transcriptText } from '../../../client/verify/transcript'
import { generateTls } from '../../../enclave/keys'
import { openSite, SITE_SKIPS, type Site } from '../../kit/verify/site'

let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterEach(() => site.restore())
afterAll(() => site.close())

/** Names of the checks that failed, or the error's name; `accepted` when there was none. */
async function refusal(connecting: Promise<unknown>): Promise<string> {
  try {
    await connecting
    return 'accepted'
  } catch (error) {
    if (!(error instanceof VerificationFailed)) return (error as Error).name
    const failed = error.transcript.checks.filter((check) => check.result === 'fail')
    return failed.map((check) => check.name).join(' ') || error.transcript.verdict
  }
}

test('an honest venue is verified, each check is told, and the transport works', async () => {
  const venue = await site.connect()
  expect(venue.transcript.verdict).toBe('partial')
  expect(venue.transcript.checks.map((check) => check.number)).toEqual(CHECKS.map(([number]) => number))
  const skipped = venue.transcript.checks.filter((check) => check.result === 'skipped')
  expect([...new Set(skipped.map((check) => check.reason_code))]).toEqual([...SITE_SKIPS])
  expect(skipped.every((check) => check.reason !== '')).toBe(true)
  expect(transcriptText(venue.transcript)).toContain('NOT PRODUCTION')
  expect((await venue.fetch('/info')).status).toBe(200)
  const socket = venue.webSocket('/ws')
  const first = await new Promise((resolve) => {
    socket.onmessage = (message) => resolve(message.data)
  })
  expect(first).toBe('hello')
  socket.close()
})

test('a skip that the policy does not permit refuses the venue', async () => {
  expect(await refusal(site.connect({ permitted_skips: [] }))).toBe('incomplete')
  expect(
    await refusal(
      site.connect({ permitted_skips: SITE_SKIPS.filter((reason) => reason !== 'keys_without_kms') }),
    ),
  ).toBe('incomplete')
  const { chain: _chain, ...without_chain } = site.policy
  const collateral = site.machine.agent.collateral()
  expect(await refusal(connect(site.url, without_chain, { collateral }))).toBe('incomplete')
})

test('each connection asks with a nonce of its own', async () => {
  const [first, second] = [await site.connect(), await site.connect()]
  expect(first.evidence.nonce).not.toBe(second.evidence.nonce)
})

test('a stand-in is refused by whoever does not name its root', async () => {
  const { roots_pem: _roots, ...policy } = site.policy
  const connecting = connect(site.url, policy, { collateral: site.machine.agent.collateral() })
  expect(await refusal(connecting)).toBe('collateral enclave')
})

test('a venue that does not answer, or not over TLS, gives no transport', async () => {
  expect(await refusal(connect('https://127.0.0.1:1', site.policy))).toBe(EvidenceUnavailable.name)
  await expect(connect('http://127.0.0.1:1', site.policy)).rejects.toThrow(RangeError)
  for (const body of ['', 'null', '[]', '{}', '{"app_id":1}']) {
    site.answers.set('/info', () => body)
    expect(await refusal(site.connect())).toBe(EvidenceUnavailable.name)
  }
})

test('a transport never leaves its venue', async () => {
  const venue = await site.connect()
  for (const path of ['//127.0.0.2/', 'https://127.0.0.2/', 'info'])
    expect(() => venue.fetch(path)).toThrow(RangeError)
})

test('collateral that cannot be had refuses the venue', async () => {
  const policy = { ...site.policy, collateral_url: 'http://127.0.0.1:1' }
  expect(await refusal(connect(site.url, policy, { timeout_ms: 1000 }))).toBe('collateral')
})

test('a bundle is judged the same offline, from its file, and later', async () => {
  const { evidence, transcript } = await site.connect()
  const bundle = parseBundle(JSON.stringify(evidence))
  const again = await judgeEvidence(bundle, site.policy, 'recorded')
  expect({ ...again, source: 'live' }).toEqual(transcript)
  const late = { ...bundle, now_ms: bundle.now_ms + 40 * 86_400_000 }
  expect((await judgeEvidence(late, site.policy, 'recorded')).verdict).toBe('failed')
})

test('a connection to another TLS key is refused after verification too, before anything is sent', async () => {
  const venue = await site.connect()
  const attested = generateTls([], Date.now())
  site.swapTls(attested)
  site.asked.length = 0
  await expect(venue.fetch('/info')).rejects.toThrow()
  await venue.fetch('/orders', { method: 'POST', body: 'secret' }).catch(() => undefined)
  const socket = venue.webSocket('/ws')
  await new Promise((resolve) => {
    socket.onerror = resolve
    socket.onclose = resolve
  })
  expect(site.asked).toEqual([])
  // The same machine behind another key: everything is genuine but the connection.
  expect(await refusal(site.connect())).toBe('tls_key')
})

test('evidence cannot write on the terminal that shows its verdict', async () => {
  const { transcript } = await site.connect()
  const check = {
    ...transcript.checks[0]!,
    reason: 'a\u001b[8m',
    values: { id: '\u001b[2J\u009bx\r\nVERIFIED\u202e' },
  }
  const text = transcriptText({ ...transcript, url: 'https://\u001bhost', checks: [check] })
  expect(text).not.toMatch(/[^\x20-\x7e\n]/)
  expect(text).toContain('\\u001b[2J\\u009bx\\u000d\\u000aVERIFIED\\u202e')
})

test('a bundle without a possible date is refused, not a crash', async () => {
  const { evidence } = await site.connect()
  for (const now_ms of [9e15, -1]) {
    expect(() => parseBundle(JSON.stringify({ ...evidence, now_ms }))).toThrow('now_ms is no date')
  }
})
