/** The operator's listener: every call signed, once; account records, drain and metrics. */
import { afterEach, expect, test } from 'bun:test'
import { openOperatorCheck } from '../../engine/accounts/verify_operator'
import type { Venue } from '../../engine/venue'
import { encodeBase58 } from '../../protocol/base58'
import { operatorHeaders } from '../../protocol/bodies/signed_calls'
import { fromHex, toHex, utf8 } from '../../protocol/bytes'
import { REFUSALS, Refusal } from '../../protocol/refusals'
import { publicKeyOf } from '../../protocol/sign'
import { REFERENCE_POLICY } from '../../server/edge/headers'
import { openLog } from '../../server/edge/log'
import { openMeters } from '../../server/edge/meters'
import { METRICS_AGE_MS } from '../../server/limits'
import { operatorApp } from '../../server/operator/operator'
import { type Listener, listen } from '../../server/tls/listen'
import { DEFAULT_LIMITS, signAdmission } from '../../tools/account/call_operator'
import { only, rawStatus, StandingClock } from '../kit/server/harness'
import { testCredential } from '../kit/venue/test_login'
import { HASH } from '../routes/bodies'

const SEED = new Uint8Array(32).fill(7)
const VENUE = fromHex(HASH, 32)!
let listener: Listener
let clock: StandingClock
let nonce: bigint
afterEach(() => listener.stop(0))

function open(venue: Partial<Venue>, drain: () => void = () => undefined): string[] {
  clock = new StandingClock()
  nonce = BigInt(clock.unixMs())
  const lines: string[] = []
  const meters = openMeters()
  meters.refused('nonce_stale')
  const app = operatorApp({
    venue: only<Venue>('venue', venue),
    log: openLog((line) => lines.push(line), clock.unixMs),
    clock,
    documents: { json: '{}', html: '<p>', css: 'p {}', streams: '{}', index: '', files: new Map() },
    check: openOperatorCheck({ operator_key: encodeBase58(publicKeyOf(SEED)), venue: VENUE, clock }),
    app: { meters },
    ends: () => ({ certificate_ms: 90 * 86_400_000, collateral_ms: 30 * 86_400_000 }),
    drain,
  })
  listener = listen(app, { hostname: '127.0.0.1', port: 0 })
  return lines
}

type Call = {
  body?: string
  seed?: Uint8Array
  venue?: Uint8Array
  target?: string
  life_s?: number
  nonce?: bigint
}
async function send(method: string, path: string, call: Call = {}) {
  nonce += 1n
  const headers = operatorHeaders(
    {
      venue: call.venue ?? VENUE,
      nonce: call.nonce ?? nonce,
      expiry_unix_s: Math.floor(clock.unixMs() / 1000) + (call.life_s ?? 60),
      method,
      target: call.target ?? path,
      body: utf8(call.body ?? ''),
    },
    call.seed ?? SEED,
  )
  return await fetch(listener.url + path, {
    method,
    headers: { ...headers, 'content-type': 'application/json' },
    ...(call.body === undefined ? {} : { body: call.body }),
  })
}
const codeOf = async (answer: Response) => [answer.status, ((await answer.json()) as { code: string }).code]

const RECORD = signAdmission(
  { account_key: publicKeyOf(SEED), version: 2, state: 'closed', limits: DEFAULT_LIMITS },
  { operator_seed: SEED, venue: VENUE },
)

test('a signed record and a credential are applied', async () => {
  const records: unknown[] = []
  const lines = open({
    admit: async (record) => {
      records.push(record)
      return { account_id: 'acct', version: 2 }
    },
    setCredential: async (account_id, { credential_id, version }) => {
      records.push(account_id)
      return { credential_id: toHex(credential_id), version, seq: 5 }
    },
  })
  const answer = await send('POST', '/accounts', { body: JSON.stringify(RECORD) })
  expect([answer.status, await answer.json()]).toEqual([200, { account_id: 'acct', version: 2 }])
  const body = JSON.stringify(testCredential('acct', VENUE, { version: 7 }).request)
  const set = await send('POST', '/accounts/credentials', { body })
  expect([set.status, await set.json()]).toEqual([200, expect.objectContaining({ version: 7, seq: 5 })])
  expect(records).toEqual([expect.objectContaining({ version: 2, state: 'closed' }), undefined])
  for (const logged of [RECORD.account_key, 'secret_hash']) expect(lines.join()).not.toContain(logged)
})

test('a batch is exported as bytes for the operator alone; an absent or malformed one is refused', async () => {
  const asked: unknown[] = []
  const lines = open({
    exportBatch: async (name) => {
      asked.push(name)
      if (name.batch === 2) throw new Refusal('auction_unknown')
      return new Uint8Array([1, 0, 255])
    },
  })
  const body = JSON.stringify({ symbol: 'SOL-USDC', batch: 1 })
  const answer = await send('POST', '/exports', { body })
  expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'application/octet-stream'])
  expect(await answer.bytes()).toEqual(new Uint8Array([1, 0, 255]))
  const unsigned = await fetch(`${listener.url}/exports`, { method: 'POST', body })
  expect(await codeOf(unsigned)).toEqual([401, 'operator_signature_invalid'])
  const refusal = async (value: unknown) =>
    codeOf(await send('POST', '/exports', { body: JSON.stringify(value) }))
  expect(await refusal({ symbol: 'SOL-USDC', batch: 2 })).toEqual([404, 'auction_unknown'])
  for (const batch of [0, -1, 1.5, '1', 2 ** 32])
    expect(await refusal({ symbol: 'SOL-USDC', batch })).toEqual([400, 'field_invalid'])
  expect(await refusal({ symbol: 'SOL-USDC' })).toEqual([400, 'field_missing'])
  expect(asked).toEqual([1, 2].map((batch) => ({ symbol: 'SOL-USDC', batch })))
  expect(lines.join()).not.toContain('SOL-USDC')
})

test('accounts are listed for the operator alone', async () => {
  const [account] = [{ ...RECORD, account_id: 'ab'.repeat(32) }]
  open({ listAccounts: async () => [account] })
  expect(await (await send('GET', '/accounts')).json()).toEqual({ items: [account] })
  expect((await fetch(`${listener.url}/accounts`)).status).toBe(401)
  const wrong = await send('PUT', '/accounts')
  expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'GET, POST'])
})

test('refusals of a record are problem documents', async () => {
  open({
    admit: async () => {
      throw new Refusal('record_stale')
    },
  })
  expect(await codeOf(await send('POST', '/accounts', { body: JSON.stringify(RECORD) }))).toEqual([
    409,
    'record_stale',
  ])
  expect(await codeOf(await send('POST', '/accounts', { body: '{"a":1,"a":2}' }))).toEqual([
    400,
    'key_duplicate',
  ])
})

test('a call without a signature, by another key, for another venue or target, or too late is refused', async () => {
  open({})
  const refused = [401, 'operator_signature_invalid']
  const unsigned = await fetch(`${listener.url}/metrics`)
  expect(unsigned.headers.get('www-authenticate')).toBe('Tacit-Operator')
  expect(await codeOf(unsigned)).toEqual(refused)
  expect(await codeOf(await send('GET', '/metrics', { seed: new Uint8Array(32).fill(8) }))).toEqual(refused)
  expect(await codeOf(await send('GET', '/metrics', { venue: new Uint8Array(32) }))).toEqual(refused)
  expect(await codeOf(await send('GET', '/metrics', { target: '/metrics?all' }))).toEqual(refused)
  expect(await codeOf(await send('GET', '/metrics', { life_s: -1 }))).toEqual(refused)
  expect(await codeOf(await send('GET', '/metrics', { life_s: 3_600 }))).toEqual(refused)
})

test('a call counts once, and calls from before the start are void', async () => {
  let drained = 0
  open({}, () => {
    drained += 1
  })
  const first = nonce + 1n
  expect((await send('POST', '/drain', { nonce: first })).status).toBe(202)
  expect((await send('POST', '/drain', { nonce: first })).status).toBe(401)
  expect((await send('POST', '/drain', { nonce: BigInt(clock.unixMs()) })).status).toBe(401)
  expect(drained).toBe(1)
})

test('metrics are Prometheus text with one head per name; counts are rounded and a minute old, the rest is exact', async () => {
  let live = 33
  const gauge = { help: 'Live.', type: 'gauge' } as const
  const metrics = () => [
    { name: 'tacit_streams', ...gauge, value: live },
    { name: 'tacit_chain_slot', ...gauge, value: live },
    { name: 'tacit_files_damaged', ...gauge, value: 1 },
    { name: 'tacit_unanchored_ms', ...gauge, value: 10_000 },
    { name: 'tacit_disk_free_bytes', ...gauge, value: 2 ** 30 + 5 },
    ...[2, 33, live].map((value, at) => ({
      name: 'tacit_journal_sync_seconds',
      help: 'Sync.',
      type: 'histogram' as const,
      value,
      labels: { le: ['0.001', '0.5', '+Inf'][at]! },
    })),
  ]
  open({ metrics })
  const read = async () => {
    const answer = await send('GET', '/metrics')
    expect(answer.headers.get('content-type')).toStartWith('text/plain; version=0.0.4')
    return await answer.text()
  }
  const first = await read()
  expect(first).toContain(
    '# HELP tacit_chain_slot Live.\n# TYPE tacit_chain_slot gauge\ntacit_chain_slot 33\n',
  )
  expect(first).toContain('process_resident_memory_bytes ')
  // The values of an alert are there at once, after each start, and are not rounded to nothing.
  for (const row of ['files_damaged 1', 'unanchored_ms 10000', `disk_free_bytes ${2 ** 30}`])
    expect(first).toContain(`tacit_${row}\n`)
  const heads = first.split('\n').filter((line) => line.startsWith('# TYPE'))
  expect(new Set(heads).size).toBe(heads.length)
  const shown = (text: string) => /^tacit_streams (\d+)$/m.exec(text)![1]
  expect([shown(first), first.includes('nonce_stale')]).toEqual(['0', false])
  live = 47
  clock.ms += METRICS_AGE_MS - 1
  expect(shown(await read())).toBe('0')
  clock.ms += 1
  // The sample of the first reading; the one after next shows this one.
  expect(shown(await read())).toBe('32')
  live = 48
  clock.ms += METRICS_AGE_MS
  expect(shown(await read())).toBe('32')
  clock.ms += METRICS_AGE_MS
  const last = await read()
  expect([shown(last), last.includes('nonce_stale')]).toEqual(['48', false])
  // Rounded and late like counts; the bucket of two messages is not there, and no sum is.
  const name = 'tacit_journal_sync_seconds'
  expect(last).toContain(
    `# TYPE ${name} histogram\n${name}_bucket{le="0.5"} 32\n${name}_bucket{le="+Inf"} 48\n${name}_count 48\n`,
  )
  expect(last).not.toContain('_sum')
})

test('a refusal of a command counts as its success does, even if a host sends more to move a count to its next step', () => {
  const rowsAfter = (count: (meters: ReturnType<typeof openMeters>) => void) => {
    const meters = openMeters()
    count(meters)
    return meters.read()
  }
  const succeeded = rowsAfter((meters) => meters.answered())
  const form = REFUSALS.findIndex(({ code }) => code === 'json_malformed')
  const of_commands = REFUSALS.slice(form).filter(({ code }) => code !== 'internal')
  expect(of_commands.length).toBeGreaterThan(40)
  for (const { code } of of_commands)
    expect([code, rowsAfter((meters) => meters.refused(code))]).toEqual([code, succeeded])
})

test('other paths and methods are refused, and the reference is open', async () => {
  open({})
  expect(await codeOf(await send('GET', '/orders'))).toEqual([404, 'route_unknown'])
  expect(await codeOf(await send('GET', '/toString'))).toEqual([404, 'route_unknown'])
  const wrong = await send('GET', '/drain')
  expect([wrong.headers.get('allow'), ...(await codeOf(wrong))]).toEqual(['POST', 405, 'method_not_allowed'])
  const page = await fetch(`${listener.url}/swagger`)
  expect(page.headers.get('content-security-policy')).toBe(REFERENCE_POLICY)
  expect([page.status, await page.text()]).toEqual([200, '<p>'])
})

test('hosts of any bytes, and bodies beyond their bound, are refused without a signature being looked at', async () => {
  const lines = open({})
  const { port } = listener
  for (const host of ['[::bad', 'a b%%', '', '/////////////'])
    expect([host, await rawStatus(port, `GET /metrics HTTP/1.1\r\nHost: ${host}\r\n\r\n`)]).toEqual([
      host,
      400,
    ])
  const post = `POST /accounts HTTP/1.1\r\nHost: localhost\r\n`
  expect(await rawStatus(port, `${post}Content-Length: 16385\r\n\r\n`)).toBe(413)
  expect(
    await rawStatus(port, `GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n`),
  ).toBe(413)
  const chunks = `8000\r\n${'a'.repeat(0x8000)}\r\n`
  expect(await rawStatus(port, `${post}Transfer-Encoding: chunked\r\n\r\n${chunks}`)).toBe(413)
  expect(await rawStatus(port, `${post}Content-Length: 16384\r\n\r\n${'a'.repeat(16_384)}`)).toBe(401)
  expect(lines).toEqual([])
})
