/** The operator's first look at a machine: its settlement key is named only when hardware, manifest and nonce agree. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { BARE_POLICY } from '../../client/verify/policy'
import type { Enclave } from '../../enclave/contract'
import { VaultAbsent } from '../../engine/chain/client/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { openLog } from '../../server/edge/log'
import { proveUntilOpen } from '../../server/prove_until_open'
import { readSigner, type SignerQuestion } from '../../tools/signer/read_signer'
import { type Machine, openMachine, openOn } from '../enclave/machine'
import { changedPolicy } from '../kit/verify/changed_policy'

let machine: Machine
let enclave: Enclave
let url: string
let there = false
let waiting: Promise<void>
beforeAll(async () => {
  machine = await openMachine()
  enclave = await openOn(machine.agent)
  const port = Promise.withResolvers<number>()
  const absent = async () => {
    if (!there) throw new VaultAbsent('the vault does not exist at this program')
  }
  const log = openLog(() => undefined, Date.now)
  const at = { hostname: '127.0.0.1', port: 0 }
  waiting = proveUntilOpen(absent, { at, enclave, log, retry_ms: 5, listening: port.resolve })
  url = `https://127.0.0.1:${await port.promise}`
})
afterAll(async () => {
  there = true
  await waiting
  await enclave.close()
  await machine.close()
})

function question(more: Partial<SignerQuestion> = {}): SignerQuestion {
  const { compose_hash } = enclave.identity
  const policy = changedPolicy(BARE_POLICY, { roots_pem: machine.agent.root_pem })
  return { url, compose_hash, policy, collateral: machine.agent.collateral(), ...more }
}

async function outcome(asked: SignerQuestion): Promise<string> {
  try {
    return (await readSigner(asked, Date.now())).tee_pubkey
  } catch (error) {
    return (error as Error).message
  }
}

test('the key of the machine is named', async () => {
  const signer = await readSigner(question(), Date.now())
  const { tee_pubkey, app_id, instance_id } = enclave.identity
  expect(signer).toEqual({
    tee_pubkey: encodeBase58(tee_pubkey),
    app_id,
    instance_id,
    tcb_status: 'UpToDate',
    os_image: 'the policy names no operating system',
  })
  const policy = changedPolicy(BARE_POLICY, {
    roots_pem: machine.agent.root_pem,
    os_image_hashes: ['00'.repeat(32)],
  })
  expect(await outcome(question({ policy }))).toMatch(/image|operating system/)
})

test('another manifest, a root nobody named and a quote of an old platform are refused', async () => {
  expect(await outcome(question({ compose_hash: '00'.repeat(32) }))).toBe('another manifest runs there')
  expect(await outcome(question({ policy: BARE_POLICY }))).not.toBe(encodeBase58(enclave.identity.tee_pubkey))
  machine.agent.knobs.debug = true
  expect(await outcome(question())).not.toBe(encodeBase58(enclave.identity.tee_pubkey))
  machine.agent.knobs.debug = false
  expect(await outcome(question())).toBe(encodeBase58(enclave.identity.tee_pubkey))
})

test('a recorded answer and another key are refused: the nonce is of this question', async () => {
  const recorded = await enclave.signerProof('11'.repeat(32))
  const fresh = async (request: Request) => {
    const proof = await enclave.signerProof(new URL(request.url).searchParams.get('reportData')!)
    return { ...proof, tee_pubkey: encodeBase58(new Uint8Array(32).fill(9)) }
  }
  for (const answer of [async () => recorded, fresh]) {
    const { cert_pem: cert, key_pem: key } = enclave.tls
    const liar = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      tls: { cert, key },
      fetch: async (request) => Response.json(await answer(request)),
    })
    expect(await outcome(question({ url: liar.url.href }))).toBe(
      'report_data is not this nonce and the settlement key',
    )
    await liar.stop(true)
  }
})
