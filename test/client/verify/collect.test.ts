/** Evidence from outside the venue: collateral, the KMS contract; no answer fills the reader's memory, and a broken one is missing evidence. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import {
  collectChain,
  collectKms,
  collectKmsContract,
  RpcUnavailable,
  readProgramData,
} from '../../../client/verify/collect/collect_chain'
import { collectCollateral } from '../../../client/verify/collect/collect_collateral'
import {
  collectLocation,
  collectVenue,
  fetchTransport,
} from '../../../client/verify/collect/collect_evidence'
import { getInfo } from '../../../enclave/agent'
import { generateTls } from '../../../enclave/x509'
import { askBounded } from '../../../protocol/ask_bounded'
import { toHex } from '../../../protocol/bytes'
import { said } from '../../kit/said'
import { collateralOf, makePki, outcome, quoteOf } from '../../kit/verify/development_pki'
import { HAVE_QUOTES, realQuotes } from '../../kit/verify/sign_any_quote'
import { answerCollateral } from '../../kit/verify/site'

const pki = makePki()
const collateral = collateralOf(pki)
const TIMEOUT_MS = 5_000
const asked: string[] = []
let broken: string | undefined
let kms_answer: unknown
let server: ReturnType<typeof Bun.serve>

beforeAll(() => {
  server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: serve })
})
afterAll(() => server.stop(true))
const base = () => `http://127.0.0.1:${server.port}`

async function serve(request: Request): Promise<Response> {
  const { pathname, search } = new URL(request.url)
  asked.push(pathname + search)
  if (request.method === 'POST') return Response.json({ jsonrpc: '2.0', id: 1, ...(kms_answer as object) })
  if (pathname === broken) return new Response('', { status: 500 })
  return answerCollateral(collateral, pathname) ?? new Response('', { status: 404 })
}

test('collateral is collected for the platform of the quote, signed text unchanged', async () => {
  const quote = quoteOf(pki)
  asked.length = 0
  const collected = await collectCollateral(`${base()}/`, quote, TIMEOUT_MS)
  expect(collected).toEqual(collateral)
  expect(asked.toSorted()).toEqual([
    '/sgx/certification/v4/pckcrl?ca=platform&encoding=der',
    '/sgx/certification/v4/rootcacrl',
    '/tdx/certification/v4/qe/identity',
    '/tdx/certification/v4/tcb?fmspc=DE0E00000000',
  ])
  expect(await outcome(pki, quote, collected)).toBe('accepted')
})

test.skipIf(!HAVE_QUOTES)('a real quote asks for its own platform', async () => {
  asked.length = 0
  await collectCollateral(base(), realQuotes()[1]!.quote, TIMEOUT_MS)
  expect(asked).toContain('/tdx/certification/v4/tcb?fmspc=90C06F000000')
})

test('a service that fails gives no collateral', async () => {
  for (const path of ['/sgx/certification/v4/rootcacrl', '/tdx/certification/v4/tcb']) {
    broken = path
    await expect(collectCollateral(base(), quoteOf(pki), TIMEOUT_MS)).rejects.toThrow(/answered 500/)
  }
  broken = undefined
})

test('a venue that is busy with quotes is asked again after the wait it names, any other refusal is final', async () => {
  let busy = 0
  let calls = 0
  const venue = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      if (!request.url.includes('/attestation')) return new Response('{}')
      calls++
      return busy-- > 0
        ? new Response('', { status: 429, headers: { 'retry-after': '0.01' } })
        : new Response('', { status: 503 })
    },
  })
  const outcomeOf = (given: number) => {
    busy = given
    calls = 0
    return collectVenue(fetchTransport(new URL(venue.url)), '11'.repeat(32), TIMEOUT_MS).catch(
      (error: Error) => `${error.message.replace(/.* answered/, '')} after ${calls}`,
    )
  }
  try {
    expect(await outcomeOf(0)).toBe(' 503 after 1')
    expect(await outcomeOf(2)).toBe(' 503 after 3')
    expect(await outcomeOf(9)).toBe(' 429 after 4')
  } finally {
    await venue.stop(true)
  }
})

test('the KMS contract answers yes or no, and nothing else counts', async () => {
  const ask = () => collectKms({ rpc_url: base() }, '11'.repeat(20), '22'.repeat(32), TIMEOUT_MS)
  kms_answer = { result: `0x${'0'.repeat(63)}1` }
  expect(await ask()).toBe(true)
  kms_answer = { result: `0x${'0'.repeat(64)}` }
  expect(await ask()).toBe(false)
  for (const answer of [{ result: '0x' }, { result: true }, { error: { code: 3 } }, {}]) {
    kms_answer = answer
    await expect(ask()).rejects.toThrow(RpcUnavailable)
  }
})

test('a chain without a genesis hash, or without accounts, is none', async () => {
  const program_id = 'So11111111111111111111111111111111111111112'
  const policy = { program_id, upgrade_authorities: [], pending_actions: [], paused_allowed: false }
  const ask = () => collectChain({ ...policy, rpc_url: base() }, TIMEOUT_MS)
  kms_answer = { result: 5 }
  await expect(ask()).rejects.toThrow('the genesis hash is malformed')
  kms_answer = { result: program_id }
  await expect(ask()).rejects.toThrow('the accounts are malformed')
})

test('the owner of the contract is one address, its delay one number, and nothing else counts', async () => {
  const ask = () => collectKmsContract({ rpc_url: base() }, '11'.repeat(20), TIMEOUT_MS)
  kms_answer = { result: `0x${'0'.repeat(24)}${'ab'.repeat(20)}` }
  expect(await ask()).toEqual({ owner: `0x${'ab'.repeat(20)}`, min_delay_s: null })
  // The fake answers both calls alike: a delay beyond every number is the longest one.
  const both = await collectKmsContract({ rpc_url: base(), timelock_min_s: 1 }, '11'.repeat(20), TIMEOUT_MS)
  expect(both.min_delay_s).toBe(Number.MAX_SAFE_INTEGER)
  const odd = [
    '0x',
    `0x${'1'.repeat(64)}`,
    `0x${'0'.repeat(128)}`,
    `0x${'0'.repeat(63)}`,
    `0x${'AB'.repeat(32)}`,
    5,
    null,
  ]
  for (const result of odd) {
    kms_answer = { result }
    await expect(ask()).rejects.toThrow(RpcUnavailable)
  }
})

test('an authority that is a list of machines in the policy is not asked', async () => {
  const listed = { name: 'ours', ppids: ['00'.repeat(16)] }
  const found = await collectLocation([listed], toHex(quoteOf(pki)), '', TIMEOUT_MS)
  expect(found).toEqual({ answers: [], silent: [] })
})

test('program data is read to the length the policy says, and holds nothing behind it', () => {
  const data = new Uint8Array(45 + 8)
  data[0] = 3
  data.set([1, 2, 3, 4], 45)
  const whole = readProgramData(data, undefined)
  expect(whole.upgrade_authority).toBeNull()
  expect(readProgramData(data, 4).sha256).not.toBe(whole.sha256)
  expect(() => readProgramData(data, 3)).toThrow(/longer or shorter/)
  expect(() => readProgramData(data, 9)).toThrow(/longer or shorter/)
  data[12] = 1
  expect(readProgramData(data, 4).upgrade_authority).toBe('1'.repeat(32))
  expect(() => readProgramData(data.subarray(0, 44), undefined)).toThrow(/malformed/)
})

const TACIT = join(import.meta.dir, '../../../client/cli/tacit.ts')

const CHUNK = new Uint8Array(65_536).fill(0x20)
const ENDLESS_BYTES = 256_000_000
const STALL_MS = 300

let handed = 0
const endless = () =>
  new Response(
    new ReadableStream({
      pull(controller) {
        handed += CHUNK.length
        if (handed > ENDLESS_BYTES) controller.close()
        else controller.enqueue(CHUNK)
      },
    }),
  )
const stalled = () =>
  new Response(
    new ReadableStream({
      start: (controller) => controller.enqueue(CHUNK),
      pull: () => Bun.sleep(60_000),
    }),
  )
/** Well formed for every reader but for its coding, which no reader asks for. */
const bomb = gzipSync(new Uint8Array(ENDLESS_BYTES).fill(0x20))
const compressed = () => new Response(bomb, { headers: { 'content-encoding': 'gzip' } })

let answer: () => Response = endless
let encodings = new Set<string | null>()
const folder = mkdtempSync(join(tmpdir(), 'tacit-bounded-'))
const reply = (request: Request): Response => {
  encodings.add(request.headers.get('accept-encoding'))
  return answer()
}
const { cert_pem: cert, key_pem: key } = generateTls([], Date.now())
/** A peer that closes within the body. */
const breaking = {
  data(socket: { end(text: string): unknown }) {
    socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n{')
  },
}
const hostname = '127.0.0.1'
const open = [
  Bun.serve({ hostname, port: 0, fetch: reply }),
  Bun.serve({ hostname, port: 0, tls: { cert, key }, fetch: reply }),
  Bun.serve({ unix: join(folder, 'agent.sock'), fetch: reply }),
] as const
const closing = [
  Bun.listen({ hostname, port: 0, socket: breaking }),
  Bun.listen({ hostname, port: 0, tls: { cert, key }, socket: breaking }),
  Bun.listen({ unix: join(folder, 'breaking.sock'), socket: breaking }),
] as const
afterAll(async () => {
  for (const one of [...open, ...closing]) await one.stop(true)
  rmSync(folder, { recursive: true, force: true })
})
let breaks = false
const url = () => `http://127.0.0.1:${(breaks ? closing : open)[0].port}`
const secure_url = () => `https://127.0.0.1:${(breaks ? closing : open)[1].port}`
const socket = () => join(folder, breaks ? 'breaking.sock' : 'agent.sock')

const quote = quoteOf(makePki())
const KEY = 'So11111111111111111111111111111111111111112'
const CHAIN = { program_id: KEY, upgrade_authorities: [], pending_actions: [], paused_allowed: false }
const AUTHORITY = { name: 'provider', key: KEY, levels: ['registry' as const] }
type Reader = [name: string, read: (timeout_ms: number) => Promise<unknown>, error: string]
const READERS: Reader[] = [
  [
    'the venue',
    (timeout_ms) => collectVenue(fetchTransport(new URL(url())), '11'.repeat(32), timeout_ms),
    'EvidenceUnavailable',
  ],
  ['the collateral service', (timeout_ms) => collectCollateral(url(), quote, timeout_ms), 'Refused'],
  ['the chain', (timeout_ms) => collectChain({ ...CHAIN, rpc_url: url() }, timeout_ms), 'RpcUnavailable'],
  [
    'the contract of the KMS',
    (timeout_ms) => collectKms({ rpc_url: url() }, '11'.repeat(20), '22'.repeat(32), timeout_ms),
    'RpcUnavailable',
  ],
  [
    'a location authority',
    async (timeout_ms) => {
      const asked = [{ ...AUTHORITY, url: url() }]
      const { silent } = await collectLocation(asked, toHex(quote), '', timeout_ms)
      if (silent.length > 0) throw new Error('silent')
    },
    'Error',
  ],
  ['the guest agent', (timeout_ms) => getInfo(socket(), timeout_ms), 'AgentFailure'],
]

describe.each(READERS)('%s', (_name, read, error) => {
  const failure = async (given: () => Response, timeout_ms = 20_000): Promise<string> => {
    answer = given
    handed = 0
    return read(timeout_ms).then(
      () => 'believed',
      (thrown: Error) => thrown.name,
    )
  }
  test('is read up to its bound', async () => {
    expect(await failure(endless)).toBe(error)
    expect(handed).toBeLessThan(ENDLESS_BYTES / 2)
  })
  test('is asked for plain bytes, and packed ones are not believed', async () => {
    encodings = new Set()
    expect(await failure(compressed)).toBe(error)
    expect([...encodings]).toEqual(['identity'])
  })
  test('that breaks off or stalls within its body is as one that does not answer', async () => {
    expect(await failure(stalled, STALL_MS)).toBe(error)
    breaks = true
    expect(await failure(endless)).toBe(error)
    breaks = false
  })
})

test('tacit verify ends with 3 when the venue sends too much, breaks off or packs its answers', async () => {
  const verify = () =>
    said(Bun.spawn([process.execPath, TACIT, 'verify', secure_url()], { stdout: 'pipe', stderr: 'pipe' }))
  for (const [given, reason] of [
    [endless, / answered too much$/],
    [compressed, / answered in another form$/],
  ] as const) {
    answer = given
    handed = 0
    const { code, error } = await verify()
    expect(error.trim()).toMatch(reason)
    expect(code).toBe(3)
  }
  breaks = true
  expect((await verify()).code).toBe(3)
  breaks = false
}, 120_000)

test('a packed body is never unpacked', async () => {
  answer = compressed
  const { bytes } = await askBounded((init) => fetch(url(), init), ENDLESS_BYTES, 20_000)
  expect(bytes.length).toBe(bomb.length)
})

test('a body of exactly the bound is whole, and one byte more is too long', async () => {
  const ask = (length: number) => askBounded(async () => new Response(new Uint8Array(length)), 10, 1_000)
  expect((await ask(10)).bytes).toEqual(new Uint8Array(10))
  expect((await ask(0)).bytes).toEqual(new Uint8Array())
  expect((await askBounded(async () => new Response(null), 0, 1_000)).bytes).toEqual(new Uint8Array())
  expect(await ask(11).catch((error) => error.kind)).toBe('too_long')
})

test('a body is too long also where its end fails', async () => {
  const body = new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(11)),
    cancel: () => Promise.reject(new Error('reset')),
  })
  const asked = askBounded(async () => new Response(body), 10, 1_000)
  expect(await asked.catch((error) => error.kind)).toBe('too_long')
})
