/** The admin's commands for the terms of attested epochs, as processes against the embedded chain. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { addressOf } from '../../engine/chain/client/chain_client'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { decodeAnnouncement } from '../../protocol/vault/accounts'
import { announceInstruction, announcementAddress } from '../../protocol/vault/announcements'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { describe as describeInstruction, requireDerived } from '../../tools/program/describe'
import { chainFolder } from '../kit/chain/chain_folder'
import { OperatorDesk } from '../kit/program_command'

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
