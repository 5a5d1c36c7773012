/** Opens the enclave on a simulated agent: identity, keys, attestation, evidence and the quote queue. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { X509Certificate } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Glob } from 'bun'
import type { AgentQuote } from '../../enclave/agent'
import { QuoteQueue, ServedIdentity } from '../../enclave/attestation'
import { type Enclave, KEY_PATHS } from '../../enclave/contract'
import { openEnclave } from '../../enclave/index'
import { ENCLAVE_LIMITS } from '../../enclave/limits'
import { generateTls } from '../../enclave/x509'
import { decodeBase58 } from '../../protocol/base58'
import { BINDING_BODY, STATEMENT_BODY } from '../../protocol/bodies/statements'
import { fromAnyHex, toHex, utf8 } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import { attestationReportData, evidenceReportData, parseQuote } from '../../protocol/tdx/quote'
import { deriveKey, type StoredKeys } from '../../sandbox/enclave/machine'
import { APP_COMPOSE, type Machine, openMachine, openOn, VENUE } from './machine'

let machine: Machine
let enclave: Enclave
let slot = 100
beforeAll(async () => {
  machine = await openMachine()
  enclave = await openOn(machine.agent)
  await enclave.bind({ venue: VENUE, epoch: 4, slot: () => slot })
})
afterAll(async () => {
  await enclave.close()
  await machine.close()
})

const NONCE = 'ab'.repeat(32)
const bytes = (hex: string) => fromAnyHex(hex)!
const reportData = (quote: string) => toHex(parseQuote(bytes(quote)).report.report_data)

test('a node that follows binds epoch 0, which no node that leads can, and one that has led follows no more', async () => {
  const other = await openOn(machine.agent)
  try {
    other.follow({ venue: VENUE, slot: () => 7 })
    const { binding } = await other.attestation(NONCE)
    expect(BINDING_BODY.decode(bytes(binding.body))).toMatchObject({ venue: VENUE, epoch: 0n, slot: 7n })
    expect(STATEMENT_BODY.decode(bytes(binding.certificate)).epoch).toBe(0n)
    expect(other.bind({ venue: VENUE, epoch: 0, slot: () => 7 })).rejects.toThrow('no node that leads')
    await other.bind({ venue: VENUE, epoch: 1, slot: () => 8 })
    expect(STATEMENT_BODY.decode(bytes((await other.attestation(NONCE)).binding.certificate)).epoch).toBe(1n)
    await other.bind({ venue: VENUE, epoch: 5, slot: () => 8 })
    expect(() => other.follow({ venue: VENUE, slot: () => 9 })).toThrow('has led')
    expect(BINDING_BODY.decode(bytes((await other.attestation(NONCE)).binding.body)).epoch).toBe(5n)
  } finally {
    await other.close()
  }
})

test("the identity equals the agent's statement", () => {
  const { compose_hash } = machine.agent
  expect(enclave.identity).toMatchObject({ kind: 'development', compose_hash, app_compose: APP_COMPOSE })
})

test('a nonce is quoted together with the settlement key', async () => {
  const { quote, report_data, tee_pubkey } = await enclave.attestation(NONCE)
  const expected = toHex(attestationReportData(bytes(NONCE), enclave.identity.tee_pubkey))
  expect(report_data).toBe(expected)
  expect(reportData(quote)).toBe(expected)
  expect(decodeBase58(tee_pubkey, 32)).toEqual(enclave.identity.tee_pubkey)
})

test('the binding chains from the settlement key to this TLS key, nonce, instance, epoch and slot', async () => {
  const { binding } = await enclave.attestation(NONCE)
  const certificate = bytes(binding.certificate)
  const { tee_pubkey, instance_id } = enclave.identity
  expect(verifySignature(bytes(binding.certificate_signature), certificate, tee_pubkey)).toBe(true)
  const statement_key = decodeBase58(binding.statement_key, 32)!
  expect(STATEMENT_BODY.decode(certificate)).toEqual({ venue: VENUE, statement_key, epoch: 4n })
  expect(verifySignature(bytes(binding.signature), bytes(binding.body), statement_key)).toBe(true)
  expect(BINDING_BODY.decode(bytes(binding.body))).toEqual({
    venue: VENUE,
    nonce: bytes(NONCE),
    spki_sha256: enclave.tls.spki_sha256,
    instance_id: bytes(instance_id),
    epoch: 4n,
    slot: 100n,
  })
})

test('the statement seed is that of the certified key', async () => {
  const { key, certificate, certificate_signature } = enclave.statement()
  expect(publicKeyOf(enclave.statement_seed)).toEqual(key)
  expect(verifySignature(certificate_signature, certificate, enclave.identity.tee_pubkey)).toBe(true)
})

test('without a nonce the quote is cached, its first half zero, and the binding follows the slot', async () => {
  const first = await enclave.attestation()
  expect(first.report_data.slice(0, 64)).toBe('00'.repeat(32))
  expect(await enclave.attestation()).toBe(first)
  slot++
  const second = await enclave.attestation()
  expect(second.quote).toBe(first.quote)
  expect(BINDING_BODY.decode(bytes(second.binding.body))).toMatchObject({
    slot: 101n,
    nonce: new Uint8Array(32),
  })
})

test('the agent strings are passed on unchanged', async () => {
  const answer = await fetch('http://dstack/GetQuote?report_data=00', { unix: machine.agent.socket })
  const { event_log, vm_config } = (await answer.json()) as Record<string, string>
  expect(await enclave.attestation(NONCE)).toMatchObject({ event_log, vm_config })
})

test.each(['', 'ab', 'AB'.repeat(32), `0x${'ab'.repeat(31)}`, 'ab'.repeat(33)])(
  'the nonce "%s" is refused',
  async (nonce) => {
    await expect(enclave.attestation(nonce)).rejects.toMatchObject({ code: 'field_invalid' })
  },
)

function checkEvidence(): X509Certificate {
  expect(enclave.evidenceNames()).toEqual(['quote.json', 'cert.pem', 'sha256sum.txt'])
  const [quote_json, cert_pem, checksums] = enclave
    .evidenceNames()
    .map((name) => enclave.evidence(name)!.body)
  expect(checksums).toBe(`${toHex(sha256(utf8(cert_pem!)))}  cert.pem\n`)
  const quote = JSON.parse(quote_json!)
  expect(Object.keys(quote)).toEqual(['quote', 'event_log', 'report_data', 'vm_config'])
  expect(reportData(quote.quote)).toBe(toHex(evidenceReportData(utf8(checksums!))))
  const certificate = new X509Certificate(cert_pem!)
  const spki = certificate.publicKey.export({ type: 'spki', format: 'der' })
  expect(sha256(new Uint8Array(spki))).toEqual(enclave.tls.spki_sha256)
  expect(cert_pem).toBe(enclave.tls.cert_pem)
  return certificate
}

test('evidence binds the served certificate, before and after its rotation', async () => {
  const before = checkEvidence()
  expect(before.subjectAltName).toBe('DNS:localhost, IP Address:127.0.0.1, DNS:venue.example')
  expect(before.verify(before.publicKey)).toBe(true)
  const rotated = await enclave.rotateTls()
  expect(enclave.tls).toBe(rotated)
  expect(checkEvidence().fingerprint256).not.toBe(before.fingerprint256)
  const { binding } = await enclave.attestation()
  expect(BINDING_BODY.decode(bytes(binding.body)).spki_sha256).toEqual(rotated.spki_sha256)
})

test('a rotation whose quote fails changes nothing', async () => {
  const { tls } = enclave
  machine.agent.knobs.failing_methods = ['GetQuote']
  try {
    await expect(enclave.rotateTls()).rejects.toMatchObject({ code: 'enclave_unavailable' })
    await expect(enclave.attestation(NONCE)).rejects.toMatchObject({ code: 'enclave_unavailable' })
  } finally {
    machine.agent.knobs.failing_methods = []
  }
  expect(enclave.tls).toBe(tls)
  checkEvidence()
})

test('an unknown evidence name is nothing', () => {
  for (const name of ['', 'key.pem', '../cert.pem', 'constructor'])
    expect(enclave.evidence(name)).toBeUndefined()
})

test('a restart of the agent is survived', async () => {
  await machine.agent.restart()
  expect((await enclave.attestation(NONCE)).report_data.slice(0, 64)).toBe(NONCE)
})

test('derived keys repeat per path and differ between paths', async () => {
  const one = await enclave.deriveKey('tacit/journal/v1')
  expect(one).toHaveLength(32)
  expect(await enclave.deriveKey('tacit/journal/v1')).toEqual(one)
  expect(await enclave.deriveKey('tacit/tie-break/v1')).not.toEqual(one)
})

test('a second boot is the same machine and build with other settlement, statement and TLS keys', async () => {
  const again = await openOn(machine.agent)
  await again.bind({ venue: VENUE, epoch: 5, slot: () => 0 })
  const { tee_pubkey } = again.identity
  expect({ ...again.identity, tee_pubkey: enclave.identity.tee_pubkey }).toEqual(enclave.identity)
  expect(tee_pubkey).not.toEqual(enclave.identity.tee_pubkey)
  expect(publicKeyOf(again.settlement_seed)).toEqual(tee_pubkey)
  expect(again.statement().key).not.toEqual(enclave.statement().key)
  expect(again.tls.spki_sha256).not.toEqual(enclave.tls.spki_sha256)
  await again.close()
})

test('before the venue is bound nothing is attested or certified', async () => {
  const unbound = await openOn(machine.agent)
  await expect(unbound.attestation()).rejects.toMatchObject({ code: 'enclave_unavailable' })
  expect(() => unbound.statement()).toThrow()
  await unbound.close()
})

test('production refuses a stand-in', async () => {
  await expect(openOn(machine.agent, { kind: 'dstack' })).rejects.toThrow('not signed by Intel hardware')
})

test.each(['dstack', 'development'] as const)('%s refuses to start without an agent', async (kind) => {
  const options = { kind, tls: { names: [] } }
  const absent = join(machine.data_dir, 'absent.sock')
  await expect(openEnclave({ ...options, agent: { socket: absent } })).rejects.toThrow(
    'no guest agent socket',
  )
  const file = join(machine.data_dir, 'file.sock')
  writeFileSync(file, '')
  await expect(openEnclave({ ...options, agent: { socket: file } })).rejects.toThrow('no guest agent socket')
})

test('where GetKey fails no key is derived, so nothing that needs one starts', async () => {
  const broken = await openMachine({ failing_methods: ['GetKey'] })
  const opened = await openOn(broken.agent)
  await expect(opened.deriveKey('tacit/journal/v1')).rejects.toMatchObject({ code: 'enclave_unavailable' })
  await opened.close()
  await broken.close()
})

test.each(['Info', 'GetQuote'])('a boot where %s fails is refused', async (method) => {
  const broken = await openMachine({ failing_methods: [method] })
  await expect(openOn(broken.agent)).rejects.toThrow(`guest agent ${method}: status 400`)
  await broken.close()
})

const ROOT = join(import.meta.dir, '../..')
const PINNED = {
  epoch_authority: 'tacit/epoch/ed25519/v1',
  journal: 'tacit/journal/v1',
  tie_break: 'tacit/tie-break/v1',
  credential: 'tacit/credential/v1',
  hashing: 'tacit/hashing/v1',
  acme_account: 'tacit/acme/account/v1',
  acme_certificate: 'tacit/acme/certificate/v1',
  fees: 'tacit/fees/ed25519/v1',
}

test('the derivation paths are these, letter by letter', () => {
  expect<Record<string, string>>(KEY_PATHS).toEqual(PINNED)
})

test('each path has one purpose: no two derive the same key', () => {
  const root = new Uint8Array(32).fill(3)
  const stored = { app_id: new Uint8Array(20), app_root_key: root, kms_root_key: root } as StoredKeys
  const keys = Object.values(KEY_PATHS).map((path) => deriveKey(stored, path, 'tacit', 'ed25519').key)
  expect(new Set(keys).size).toBe(keys.length)
  // HKDF-SHA256 (salt `RATLS`, this root, info `tacit/journal/v1`), computed by another implementation.
  expect(keys[1]).toBe('9e1ad47568b5c07040c603b7453bd2d5fbca5f4ed82aa5afc1965f4ee461d124')
})

test('no other file of the product spells a path', () => {
  const folders = 'protocol,native,engine,enclave,server,routes,client,sandbox,tools,bench'
  const files = [...new Glob(`{${folders}}/**/*.ts`).scanSync({ cwd: ROOT })]
  expect(files).toContain('enclave/contract.ts')
  const spelled = files.filter((file) => {
    const source = readFileSync(join(ROOT, file), 'utf8')
    return Object.values(PINNED).some((path) => source.includes(`'${path}'`) || source.includes(`"${path}"`))
  })
  expect(spelled).toEqual(['enclave/contract.ts'])
})

const LIMITS = { quote_waiting_max: 2, quote_wait_ms: 60_000 }

/** A task that ends on request, and the order in which tasks began. */
function tasks() {
  const began: string[] = []
  const begin = (name: string) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const task = () => {
      began.push(name)
      return promise
    }
    return { task, end: () => resolve(name), fail: () => reject(new Error(name)) }
  }
  return { began, begin }
}

test('one runs at a time, the others wait in order', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { began, begin } = tasks()
  const [a, b, c] = [begin('a'), begin('b'), begin('c')]
  const results = [queue.run(a.task), queue.run(b.task), queue.run(c.task)]
  expect(began).toEqual(['a'])
  a.end()
  await results[0]
  b.end()
  await results[1]
  c.end()
  expect(await results[2]).toBe('c')
  expect(began).toEqual(['a', 'b', 'c'])
})

test('beyond the bound a caller learns when to retry', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { begin } = tasks()
  const [a, b, c, d] = [begin('a'), begin('b'), begin('c'), begin('d')]
  const results = [queue.run(a.task), queue.run(b.task), queue.run(c.task)]
  const refused = await queue.run(d.task).catch((error) => error)
  expect(refused).toMatchObject({ code: 'quote_busy', status: 429 })
  expect(refused.facts.retry_after_ms).toBeGreaterThan(0)
  for (const task of [a, b, c]) task.end()
  expect(await Promise.all(results)).toEqual(['a', 'b', 'c'])
})

test("the venue's own quotes go first and are never refused", async () => {
  const queue = new QuoteQueue(LIMITS)
  const { began, begin } = tasks()
  const [a, b, c, own] = [begin('a'), begin('b'), begin('c'), begin('own')]
  const results = [queue.run(a.task), queue.run(b.task), queue.run(c.task), queue.run(own.task, true)]
  for (const task of [a, own, b, c]) task.end()
  await Promise.all(results)
  expect(began).toEqual(['a', 'own', 'b', 'c'])
})

test('a failed quote lets the next one run', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { begin } = tasks()
  const [a, b] = [begin('a'), begin('b')]
  const [first, second] = [queue.run(a.task), queue.run(b.task)]
  a.fail()
  b.end()
  await expect(first).rejects.toThrow('a')
  expect(await second).toBe('b')
})

test('who waited too long is refused, not served', async () => {
  const queue = new QuoteQueue({ quote_waiting_max: 2, quote_wait_ms: -1 })
  const { began, begin } = tasks()
  const [a, b] = [begin('a'), begin('b')]
  const [first, second] = [queue.run(a.task), queue.run(b.task)]
  a.end()
  await first
  await expect(second).rejects.toMatchObject({ code: 'quote_busy' })
  expect(began).toEqual(['a'])
})

test('closing refuses everyone who waits', async () => {
  const queue = new QuoteQueue(LIMITS)
  const { begin } = tasks()
  const [a, b] = [begin('a'), begin('b')]
  const [first, second] = [queue.run(a.task), queue.run(b.task)]
  queue.close()
  await expect(second).rejects.toMatchObject({ code: 'enclave_unavailable' })
  a.end()
  expect(await first).toBe('a')
})

let quoteMachine: Machine | undefined
afterEach(() => quoteMachine?.close())

test('an agent slower than the time limit is a refusal', async () => {
  quoteMachine = await openMachine()
  const enclave = await openOn(quoteMachine.agent, { limits: { quote_call_ms: 1_500 } })
  await enclave.bind({ venue: VENUE, epoch: 1, slot: () => 0 })
  quoteMachine.agent.knobs.quote_delay_ms = 10_000
  await expect(enclave.attestation('ab'.repeat(32))).rejects.toMatchObject({ code: 'enclave_unavailable' })
  await enclave.close()
})

let servedMachine: Machine
beforeAll(async () => {
  servedMachine = await openMachine()
})
afterAll(() => servedMachine.close())

/** Resolves once the served quote is another one; the test's own time limit ends a wait in vain. */
async function renewed(enclave: Enclave, before: string): Promise<void> {
  while (enclave.evidence('quote.json')!.body === before)
    await new Promise((resolve) => setImmediate(resolve))
}

test('evidence is renewed for the same certificate, also after attempts that failed', async () => {
  // Every four hours, as documented (attestation.md).
  expect(ENCLAVE_LIMITS.evidence_renew_ms).toBe(14_400_000)
  const enclave = await openOn(servedMachine.agent, {
    limits: { evidence_renew_ms: 1, evidence_retry_ms: 1 },
  })
  const { cert_pem } = enclave.tls
  await renewed(enclave, enclave.evidence('quote.json')!.body)
  servedMachine.agent.knobs.failing_methods = ['GetQuote']
  await expect(enclave.rotateTls()).rejects.toMatchObject({ code: 'enclave_unavailable' })
  servedMachine.agent.knobs.failing_methods = []
  await renewed(enclave, enclave.evidence('quote.json')!.body)
  expect(enclave.tls.cert_pem).toBe(cert_pem)
  expect(enclave.evidence('cert.pem')!.body).toBe(cert_pem)
  await enclave.close()
})

test('an enclave that closes during a renewal asks the agent for nothing more', async () => {
  const quote = { quote: '', event_log: '', vm_config: '', report_data: '' } as AgentQuote
  const asked = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  let quotes = 0
  const quoteOver = async () => {
    // The first two are those of the opening.
    if (++quotes > 2) {
      asked.resolve()
      await answered.promise
    }
    return quote
  }
  const limits = { ...ENCLAVE_LIMITS, evidence_renew_ms: 1, evidence_retry_ms: 1 }
  const served = await ServedIdentity.open([], new Uint8Array(32), quoteOver, limits)
  await asked.promise
  served.close()
  answered.resolve()
  await Bun.sleep(50)
  expect(quotes).toBe(4)
})

test('a client that trusts the certificate reaches the server by every name, over TLS 1.3', async () => {
  const { cert_pem, key_pem } = generateTls(['venue.example'], Date.now())
  const tls = { cert: cert_pem, key: key_pem, minVersion: 772 }
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', tls, fetch: () => new Response('reached') })
  for (const host of ['localhost', '127.0.0.1']) {
    const answer = await fetch(`https://${host}:${server.port}/`, { tls: { ca: cert_pem } })
    expect(await answer.text()).toBe('reached')
  }
  const { cert_pem: other } = generateTls([], Date.now())
  await expect(
    fetch(`https://localhost:${server.port}/`, { tls: { ca: other }, keepalive: false }),
  ).rejects.toThrow()
  await server.stop(true)
})

test('a name that is neither DNS nor address is refused', () => {
  for (const name of ['', 'with space', 'UPPER.example', 'a/b', 'fe80::1']) {
    expect(() => generateTls([name], Date.now())).toThrow(RangeError)
  }
})

test('it starts in the past and ends in 90 days', () => {
  const now_ms = Date.UTC(2031, 0, 1)
  expect(generateTls([], now_ms).not_after_ms - now_ms).toBe(90 * 86_400_000)
})
