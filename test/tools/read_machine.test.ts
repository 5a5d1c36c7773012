/** The operator's first look at a machine, and the admin's commands that announce what it shows, against the embedded chain. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { BARE_POLICY } from '../../client/verify/policy'
import type { Enclave } from '../../enclave/contract'
import { KEY_PATHS } from '../../enclave/key_paths'
import { addressOf } from '../../engine/chain/client/chain_client'
import { VaultAbsent } from '../../engine/chain/client/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { decodeAnnouncement } from '../../protocol/vault/accounts'
import { ANNOUNCED_LISTS, announceInstruction, announcementAddress } from '../../protocol/vault/admin'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { openLog } from '../../server/edge/log'
import { proveUntilOpen } from '../../server/prove_until_open'
import { type MachineQuestion, readMachine } from '../../tools/machine/read_machine'
import { describe as describeInstruction, requireDerived } from '../../tools/program/describe'
import { type Machine, openMachine, openOn } from '../enclave/machine'
import { chainFolder } from '../kit/chain/chain_folder'
import { OperatorDesk } from '../kit/program_command'
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

const program_path = join(import.meta.dir, '../../program/vault.so')
const BUILD = '5a'.repeat(32)
const OTHER = 'a5'.repeat(32)
const folder = chainFolder()
let chain: OpenedChain
let desk: OperatorDesk
let program: Uint8Array

beforeAll(async () => {
  chain = await openEmbeddedChain({ slot_ms: 4, finalized_depth: 4, data_dir: folder.dir })
  desk = new OperatorDesk(chain)
  program = await makeGenesis(chain, { program_path })
  desk.key('admin.json', chain.admin_seed)
})
afterAll(async () => {
  await chain.close()
  desk[Symbol.dispose]()
  folder.remove()
})

const run = (command: string, key: string, ...more: string[]) =>
  desk.run([command, '--rpc', chain.url, '--program', encodeBase58(program), '--admin', key, ...more])
const build = (id: string) => ['--list', 'build', '--id', id]
const recordOf = (id: string) => {
  const address = announcementAddress(program, { list: 'build', id: Uint8Array.from(Buffer.from(id, 'hex')) })
  const account = chain.machine.bank.svm.getAccount(addressOf(address))
  return account.exists ? decodeAnnouncement(Uint8Array.from(account.data)) : undefined
}

test('a build is announced and revoked; nothing is sent without --execute', async () => {
  const dry = await run('announce', 'admin.json', ...build(BUILD))
  expect([dry.code, dry.out.includes(BUILD), recordOf(BUILD)]).toEqual([0, true, undefined])
  const done = await run('announce', 'admin.json', ...build(BUILD), '--execute')
  expect([done.code, done.error]).toEqual([0, ''])
  expect(toHex(recordOf(BUILD)!.id)).toBe(BUILD)
  expect(recordOf(BUILD)!.since_s + recordOf(BUILD)!.next_at_s).toBeGreaterThan(0)
  expect((await run('revoke', 'admin.json', ...build(BUILD), '--execute')).code).toBe(0)
  expect(recordOf(BUILD)).toMatchObject({ since_s: 0, next_at_s: 0 })
})

test('show lists what is announced, and each list whose last member could be revoked', async () => {
  const shown = async () => {
    const { out } = await desk.run(['show', '--rpc', chain.url, '--program', encodeBase58(program)])
    return JSON.parse(out).vault
  }
  expect((await shown()).without_successor).toEqual(['build', 'image', 'platform'])
  for (const id of [BUILD, OTHER])
    expect((await run('announce', 'admin.json', ...build(id), '--execute')).code).toBe(0)
  const { announced, without_successor } = await shown()
  expect(without_successor).toEqual(['image', 'platform'])
  expect(announced.map(({ id }: { id: string }) => id).sort()).toEqual([BUILD, OTHER])
})

test('an unknown list and an id or value of another width are usage faults', async () => {
  for (const args of [
    ['--list', 'builds', '--id', BUILD],
    ['--list', 'build', '--id', BUILD.slice(2)],
    ['--list', 'build', '--id', BUILD, '--value', '00'],
    ['--list', 'attestation_root', '--value', BUILD],
    ['--list', 'attestation_root'],
  ])
    expect([args, (await run('announce', 'admin.json', ...args)).code]).toEqual([args, 64])
})

test('a file whose record is that of another build is refused before it is signed', () => {
  const key = Uint8Array.from(Buffer.from(BUILD, 'hex'))
  const topic = { list: 'build', id: key, action: 'announce' } as const
  const instruction = announceInstruction({ program, admin: key, payer: key, ...topic })
  const draft = { instruction, genesis_hash: key, fee_payer: key }
  expect(() => requireDerived(draft, program)).not.toThrow()
  expect(describeInstruction(instruction).fields).toMatchObject({ list: 'build', id: BUILD })
  const other = { list: 'build', id: Uint8Array.from(Buffer.from(OTHER, 'hex')) } as const
  instruction.accounts[3]!.address = announcementAddress(program, other)
  expect(() => requireDerived(draft, program)).toThrow('account announcement')
})
