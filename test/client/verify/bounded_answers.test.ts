/** Hostile senders: no answer fills the reader's memory, and a broken one is missing evidence, never a crash or a verdict. */
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { collectChain, collectKms } from '../../../client/verify/collect/collect_chain'
import { collectCollateral } from '../../../client/verify/collect/collect_collateral'
import { collectLocation } from '../../../client/verify/collect/collect_evidence'
import { collectVenue, fetchTransport } from '../../../client/verify/collect/collect_venue'
import { getInfo } from '../../../enclave/agent'
import { generateTls } from '../../../enclave/x509'
import { askBounded } from '../../../protocol/ask_bounded'
import { toHex } from '../../../protocol/bytes'
import { makePki, quoteOf } from '../../kit/verify/development_pki'
import { said } from '../cli_site'

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
