/** The identity an enclave serves is the one its agent measured. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { AgentQuote } from '../../enclave/agent'
import type { Enclave } from '../../enclave/contract'
import { ENCLAVE_LIMITS } from '../../enclave/limits'
import { ServedIdentity } from '../../enclave/served_identity'
import { generateTls } from '../../enclave/x509'
import { type Machine, openMachine, openOn } from './machine'

let machine: Machine
beforeAll(async () => {
  machine = await openMachine()
})
afterAll(() => machine.close())

/** Resolves once the served quote is another one; the test's own time limit ends a wait in vain. */
async function renewed(enclave: Enclave, before: string): Promise<void> {
  while (enclave.evidence('quote.json')!.body === before)
    await new Promise((resolve) => setImmediate(resolve))
}

test('evidence is renewed for the same certificate, also after attempts that failed', async () => {
  // Every four hours, as clients are told (attestation.md).
  expect(ENCLAVE_LIMITS.evidence_renew_ms).toBe(14_400_000)
  const enclave = await openOn(machine.agent, { limits: { evidence_renew_ms: 1, evidence_retry_ms: 1 } })
  const { cert_pem } = enclave.tls
  await renewed(enclave, enclave.evidence('quote.json')!.body)
  machine.agent.knobs.failing_methods = ['GetQuote']
  await expect(enclave.rotateTls()).rejects.toMatchObject({ code: 'enclave_unavailable' })
  machine.agent.knobs.failing_methods = []
  await renewed(enclave, enclave.evidence('quote.json')!.body)
  expect(enclave.tls.cert_pem).toBe(cert_pem)
  expect(enclave.evidence('cert.pem')!.body).toBe(cert_pem)
  await enclave.close()
})

test('what closes during a renewal asks the agent for nothing more', async () => {
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
