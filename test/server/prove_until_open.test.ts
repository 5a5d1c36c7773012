/** Before its vault exists a venue proves its settlement key and nothing else, and goes on by itself once it is opened. */
import { expect, test } from 'bun:test'
import { KEY_PATHS } from '../../enclave/key_paths'
import { VaultAbsent, VaultUnreadable } from '../../engine/chain/client/read_vault'
import { decodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import { openLog } from '../../server/edge/log'
import { proveUntilOpen } from '../../server/prove_until_open'
import { MachineUnjudged } from '../../server/self_check'
import { openMachine, openOn } from '../enclave/machine'

const at = { hostname: '127.0.0.1', port: 0 }
const lines: string[] = []
const log = openLog((line) => lines.push(line), Date.now)

test('the key is shown with a quote over the nonce until the vault is there', async () => {
  const machine = await openMachine()
  const enclave = await openOn(machine.agent)
  let there = false
  const port = Promise.withResolvers<number>()
  const opened = proveUntilOpen(
    async () => {
      if (!there) throw new VaultAbsent('the vault does not exist at this program')
      return 'chain'
    },
    { at, enclave, log, retry_ms: 5, listening: port.resolve },
  )
  const base = `https://127.0.0.1:${await port.promise}`
  const get = (path: string, method = 'GET') =>
    fetch(base + path, { method, tls: { ca: enclave.tls.cert_pem } })
  const nonce = '5a'.repeat(32)
  const answer = await get(`/attestation?reportData=${nonce}`)
  expect(answer.status).toBe(200)
  const proof = (await answer.json()) as Record<string, string>
  const authority = publicKeyOf(await enclave.deriveKey(KEY_PATHS.epoch_authority))
  expect(decodeBase58(proof['tee_pubkey']!, 32)).toEqual(authority)
  expect(proof['report_data']).toBe(nonce + toHex(sha256(authority)))
  expect(proof['quote']).toContain(proof['report_data']!)
  const fields = ['enclave', 'event_log', 'quote', 'report_data', 'tee_pubkey', 'vm_config']
  expect([Object.keys(proof).sort(), proof['enclave']]).toEqual([fields, 'development'])
  const plain = (await (await get('/attestation')).json()) as Record<string, string>
  expect(plain['report_data']!.slice(0, 64)).toBe('00'.repeat(32))
  expect((await get('/health')).status).toBe(200)
  expect((await get('/attestation?reportData=5a')).status).toBe(400)
  for (const refused of [await get('/instruments'), await get('/orders', 'POST')])
    expect(await refused.json()).toMatchObject({ code: 'settlement_unavailable' })
  there = true
  expect(await opened).toBe('chain')
  const gone = await get('/health').then(
    () => 'answered',
    () => 'gone',
  )
  expect(gone).toBe('gone')
  expect(lines.join('')).toContain('vault_absent')
  await enclave.close()
  await machine.close()
})

test('a machine that cannot be judged yet is waited for, with the reason in the log', async () => {
  const machine = await openMachine()
  const enclave = await openOn(machine.agent)
  const port = Promise.withResolvers<number>()
  let attempts = 0
  const opened = proveUntilOpen(
    async () => {
      attempts += 1
      if (attempts < 3) throw new MachineUnjudged('the service did not answer')
      return 'judged'
    },
    { at, enclave, log, retry_ms: 5, listening: port.resolve },
  )
  expect(await opened).toBe('judged')
  const [line, ...more] = lines.filter((one) => one.includes('machine_unjudged'))
  expect(JSON.parse(line!)).toMatchObject({ level: 'warn', reason: 'the service did not answer' })
  expect([await port.promise, more]).toEqual([JSON.parse(line!).port, []])
  await enclave.close()
  await machine.close()
})

test('a vault that cannot be read is a fault, not something to wait for', async () => {
  const fault = new VaultUnreadable('the vault has an unknown layout')
  const enclave = { keyProof: () => Promise.reject(fault), tls: undefined as never }
  const outcome = await proveUntilOpen(() => Promise.reject(fault), { at, enclave, log }).catch(
    (error) => error,
  )
  expect(outcome).toBe(fault)
})
