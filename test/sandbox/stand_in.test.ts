/** The simulated guest agent makes structurally real quotes that are valid under its development root only. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import qvl from '@phala/dcap-qvl'
import { fromAnyHex, toHex } from '../../protocol/bytes'
import { derOfPem } from '../../protocol/x509/certificate'
import { openStandInAgent } from '../../sandbox/enclave/agent'
import { APP_COMPOSE, type Machine, openMachine } from '../enclave/machine'

let machine: Machine
beforeAll(async () => {
  machine = await openMachine()
})
afterAll(() => machine.close())

const call = (path: string, init: RequestInit = {}) =>
  fetch(`http://dstack${path}`, { unix: machine.agent.socket, ...init })
const post = (path: string, body: unknown) => call(path, { method: 'POST', body: JSON.stringify(body) })

async function quoted(report_data = '12'): Promise<Buffer> {
  const answer = (await (await post('/GetQuote', { report_data })).json()) as { quote: string }
  return Buffer.from(answer.quote, 'hex')
}
const root = () => Buffer.from(derOfPem(machine.agent.root_pem, 'CERTIFICATE')![0]!)
const now_s = () => Math.floor(Date.now() / 1000)
const judge = (quote: Buffer) =>
  qvl.QuoteVerifier.newWithRootCa(root()).verify(quote, machine.agent.collateral(), now_s())

async function withKnobs<T>(knobs: Partial<Machine['agent']['knobs']>, act: () => Promise<T>): Promise<T> {
  const before = { ...machine.agent.knobs }
  Object.assign(machine.agent.knobs, knobs)
  try {
    return await act()
  } finally {
    Object.assign(machine.agent.knobs, before)
  }
}

test('an independent verifier accepts the quote under the development root', async () => {
  const { status, advisory_ids } = judge(await quoted())
  expect(status).toBe('UpToDate')
  expect(advisory_ids).toEqual([])
})

test('an independent verifier rejects the quote under the production root', async () => {
  const quote = await quoted()
  expect(() => qvl.verify(quote, machine.agent.collateral(), now_s())).toThrow()
})

test('a changed byte of the TD report is rejected', async () => {
  const quote = await quoted()
  quote[600]! ^= 1
  expect(() => judge(quote)).toThrow('signature is invalid')
})

test.each([
  [{ debug: true }, 'Debug mode'],
  [{ expired_collateral: true }, 'expired'],
  [{ revoked_pck: true }, 'revoked'],
])('%j is rejected', async (knobs, reason) => {
  await withKnobs(knobs, async () => {
    const quote = await quoted()
    expect(() => judge(quote)).toThrow(reason)
  })
})

test('an outdated platform is reported as such', async () => {
  await withKnobs({ out_of_date: true }, async () => {
    expect(judge(await quoted()).status).toBe('OutOfDate')
  })
})

test('every name under the root says DEVELOPMENT ONLY', async () => {
  const { X509Certificate } = await import('node:crypto')
  const chain = `${machine.agent.collateral().tcb_info_issuer_chain}${machine.agent.collateral().pck_crl_issuer_chain}`
  for (const der of derOfPem(chain, 'CERTIFICATE')!) {
    const { subject, issuer } = new X509Certificate(der)
    expect(subject).toContain('DEVELOPMENT ONLY')
    expect(issuer).toContain('DEVELOPMENT ONLY')
  }
})

test('GET and POST, with and without /v0, give the same answer', async () => {
  const path_key = { path: 'some/path', purpose: 'p', algorithm: 'ed25519' }
  const answers = await Promise.all([
    post('/GetKey', path_key),
    post('/v0/GetKey', path_key),
    call(`/GetKey?${new URLSearchParams(path_key)}`),
  ])
  const [first, ...others] = await Promise.all(answers.map((answer) => answer.json()))
  expect(first).toMatchObject({ key: expect.stringMatching(/^[0-9a-f]{64}$/) })
  for (const other of others) expect(other).toEqual(first)
  for (const link of (first as { signature_chain: string[] }).signature_chain) expect(link).toHaveLength(130)
})

test('neither purpose nor algorithm changes a key, the path does', async () => {
  const key = async (request: object) =>
    ((await (await post('/GetKey', request)).json()) as { key: string }).key
  const one = await key({ path: 'a', purpose: 'x', algorithm: 'ed25519' })
  expect(await key({ path: 'a', purpose: 'y', algorithm: 'secp256k1' })).toBe(one)
  expect(await key({ path: 'b', purpose: 'x', algorithm: 'ed25519' })).not.toBe(one)
})

test('unknown methods, mounts and bad requests are answered as the agent answers them', async () => {
  const unknown = await post('/Nothing', {})
  expect([unknown.status, await unknown.json()]).toEqual([404, { error: 'Service not found: Nothing' }])
  const mount = await post('/v1/Info', {})
  expect(mount.status).toBe(404)
  expect(await mount.text()).toBe('404 Not Found')
  for (const report_data of ['zz', '0', '00'.repeat(65)]) {
    expect((await post('/GetQuote', { report_data })).status).toBe(400)
  }
  expect((await call('/GetQuote', { method: 'POST', body: '[' })).status).toBe(400)
  expect((await post('/Version', {})).status).toBe(200)
})

test('short report_data is padded with zeros on the right', async () => {
  const quote = await quoted('0x12ff')
  expect(toHex(new Uint8Array(quote.subarray(568, 632)))).toBe(`12ff${'00'.repeat(62)}`)
})

test('keys and root survive a restart, and a second agent on the folder is refused', async () => {
  const again = { data_dir: machine.data_dir, app_compose: APP_COMPOSE }
  await expect(openStandInAgent(again)).rejects.toThrow('another stand-in agent')
  const other_manifest = { ...again, app_compose: '{}' }
  const before = (await (await call('/GetKey?path=x')).json()) as { key: string }
  const { root_pem } = machine.agent
  await machine.agent.close()
  const next = await openStandInAgent(other_manifest)
  try {
    const after = (await (await fetch('http://dstack/GetKey?path=x', { unix: next.socket })).json()) as {
      key: string
    }
    expect(after.key).toBe(before.key)
    expect(next.root_pem).toBe(root_pem)
    expect(next.compose_hash).not.toBe(machine.agent.compose_hash)
  } finally {
    await next.close()
    await machine.agent.restart()
  }
})

test('secrets are readable by their owner only, and root and collateral lie beside them', () => {
  const mode = (name: string) => statSync(join(machine.data_dir, name)).mode & 0o777
  expect(mode('development-keys.json')).toBe(0o600)
  expect(mode('agent.sock')).toBe(0o600)
  expect(readFileSync(join(machine.data_dir, 'development-root.pem'), 'utf8')).toBe(machine.agent.root_pem)
  const stored = JSON.parse(readFileSync(join(machine.data_dir, 'collateral.json'), 'utf8'))
  expect(Object.keys(stored)).toEqual(Object.keys(machine.agent.collateral()))
  expect(fromAnyHex(stored.pck_crl)).toBeDefined()
})
