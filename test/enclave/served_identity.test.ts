/** The identity an enclave serves is the one its agent measured. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Enclave } from '../../enclave/contract'
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
