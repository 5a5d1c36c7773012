/** The operator's first look at a machine: what to announce is named only when hardware, manifest and nonce agree. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { BARE_POLICY } from '../../client/verify/policy'
import type { Enclave } from '../../enclave/contract'
import { KEY_PATHS } from '../../enclave/key_paths'
import { VaultAbsent } from '../../engine/chain/client/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { ANNOUNCED_LISTS } from '../../protocol/vault/announcements'
import { openLog } from '../../server/edge/log'
import { proveUntilOpen } from '../../server/prove_until_open'
import { type MachineQuestion, readMachine } from '../../tools/machine/read_machine'
import { type Machine, openMachine, openOn } from '../enclave/machine'
import { changedPolicy } from '../kit/verify/changed_policy'

let machine: Machine
let enclave: Enclave
let url: string
let authority: Uint8Array
let there = false
let waiting: Promise<void>
beforeAll(async () => {
  machine = await openMachine()
  enclave = await openOn(machine.agent)
  authority = publicKeyOf(await enclave.deriveKey(KEY_PATHS.epoch_authority))
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

function question(more: Partial<MachineQuestion> = {}): MachineQuestion {
  const { compose_hash } = enclave.identity
  const policy = changedPolicy(BARE_POLICY, { roots_pem: machine.agent.root_pem })
  return { url, compose_hash, policy, collateral: machine.agent.collateral(), ...more }
}

async function outcome(asked: MachineQuestion): Promise<string> {
  try {
    return (await readMachine(asked, Date.now())).epoch_authority
  } catch (error) {
    return (error as Error).message
  }
}

test('the key of the machine is named', async () => {
  const facts = await readMachine(question(), Date.now())
  const { app_id, instance_id } = enclave.identity
  const { announcements, ...named } = facts
  expect(announcements.map(({ list }) => list).sort()).toEqual(Object.keys(ANNOUNCED_LISTS).sort())
  expect(announcements.at(-1)).toEqual({ list: 'epoch_authority', value: toHex(authority) })
  expect(announcements).toContainEqual({ list: 'build', id: enclave.identity.compose_hash })
  expect(named).toEqual({
    epoch_authority: encodeBase58(authority),
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
  expect(await outcome(question({ policy: BARE_POLICY }))).not.toBe(encodeBase58(authority))
  machine.agent.knobs.debug = true
  expect(await outcome(question())).not.toBe(encodeBase58(authority))
  machine.agent.knobs.debug = false
  expect(await outcome(question())).toBe(encodeBase58(authority))
})

test('a recorded answer and another key are refused: the nonce is of this question', async () => {
  const recorded = await enclave.keyProof('epoch_authority', '11'.repeat(32))
  const fresh = async (request: Request) => {
    const proof = await enclave.keyProof(
      'epoch_authority',
      new URL(request.url).searchParams.get('reportData')!,
    )
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
      'report_data is not this nonce and the epoch authority',
    )
    await liar.stop(true)
  }
})
