/**
 * Two Squads (squads-mpl 1.3, two of three members) deploy the vault, administer it and hand it over. Their program is not
 * part of this repository: TACIT_SQUADS_SO is the path of a copy, without which that test is skipped. The others make
 * the same calls through a program of the tests.
 */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { sha256Hex } from '../../../program/build'
import { decodeBase58 } from '../../../protocol/base58'
import { concatBytes, equalBytes, utf8 } from '../../../protocol/bytes'
import { bool, fixed, list, sized, struct, u16, u32 } from '../../../protocol/codec'
import { sha256 } from '../../../protocol/sha256'
import { findAddress, SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import {
  announceInstruction,
  authorizeRestoreInstruction,
  declareOutageInstruction,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../protocol/vault/admin'
import { depositInstruction } from '../../../protocol/vault/exits'
import type { InstructionAccount, VaultInstruction } from '../../../protocol/vault/instruction'
import {
  bytes32,
  EXIT_DELAY_S,
  element,
  errorOf,
  initializationOf,
  landed,
  runningVault,
} from '../../kit/vault/open_vault'
import { mintBytes, testKey, VaultChain } from '../../kit/vault/vault_chain'
import { bySignedMultisig, FORWARDER, FORWARDER_SO, forwarded, MULTISIG } from '../forwarder'

const PATH = process.env['TACIT_SQUADS_SO']
const SHA256 = '757fb8ad1ebce912970d59c2022f1fd0711aa46280e59c37ca8ad56a91e685a2'
const SQUADS = decodeBase58('SMPLecH534NA9acpos4G6x7uf3LWbCAwZQE9e8ZekMu', 32)!
if (PATH === undefined) console.log('Squads do not administer the vault here: TACIT_SQUADS_SO is not set')

const CREATE = struct({
  threshold: u16,
  create_key: fixed(32),
  members: list(fixed(32), 3, u32),
  meta: sized(u32),
})
const META = struct({ address: fixed(32), signer: bool, writable: bool })
const INCOMING = struct({ program: fixed(32), accounts: list(META, 64, u32), data: sized(u32) })
/** Number of the address that signs for a squad. */
const AUTHORITY = u32.encode(1)
const members = ['one', 'two', 'three'].map((name) => testKey(`member ${name}`))
const [first] = members as [ReturnType<typeof testKey>]

const derived = (...seeds: Uint8Array[]): Uint8Array => findAddress([utf8('squad'), ...seeds], SQUADS).address
const written = (address: Uint8Array): InstructionAccount => ({ address, signer: false, writable: true })
const read = (address: Uint8Array): InstructionAccount => ({ address, signer: false, writable: false })
const signing = (address: Uint8Array): InstructionAccount => ({ address, signer: true, writable: true })

class Squad {
  readonly #multisig: Uint8Array
  readonly address: Uint8Array
  #transactions = 0

  constructor(
    readonly chain: VaultChain,
    name: string,
  ) {
    const create_key = bytes32(name)
    this.#multisig = derived(create_key, utf8('multisig'))
    this.address = derived(this.#multisig, AUTHORITY, utf8('authority'))
    const keys = members.map(({ key }) => key)
    const data = CREATE.encode({ threshold: 2, create_key, members: keys, meta: new Uint8Array() })
    this.#send('create', [written(this.#multisig), signing(first.key), read(SYSTEM_PROGRAM)], data)
    chain.svm.airdrop(addressOf(this.address), 100_000_000_000n as never)
  }

  #call(name: string, accounts: InstructionAccount[], data: Uint8Array = new Uint8Array()): VaultInstruction {
    const discriminator = sha256(utf8(`global:${name}`)).slice(0, 8)
    return { program: SQUADS, accounts, data: concatBytes(discriminator, data) }
  }

  #send(name: string, accounts: InstructionAccount[], data?: Uint8Array, member = first): void {
    landed(this.chain.send(this.#call(name, accounts, data), member))
  }

  /** Proposes the instruction, approves it by so many members, executes it: the outcome. */
  run(inner: VaultInstruction, votes = 2): string {
    this.#transactions += 1
    const multisig = this.#multisig
    const transaction = derived(multisig, u32.encode(this.#transactions), utf8('transaction'))
    const instruction = derived(transaction, Uint8Array.of(1), utf8('instruction'))
    const [own, system] = [signing(first.key), read(SYSTEM_PROGRAM)]
    this.#send('create_transaction', [written(multisig), written(transaction), own, system], AUTHORITY)
    const added = [read(multisig), written(transaction), written(instruction), own, system]
    this.#send('add_instruction', added, INCOMING.encode(inner))
    this.#send('activate_transaction', [read(multisig), written(transaction), own])
    for (const member of members.slice(0, votes)) {
      const accounts = [read(multisig), written(transaction), signing(member.key)]
      this.#send('approve_transaction', accounts, undefined, member)
    }
    const named = inner.accounts.map((one) => ({ ...one, signer: false }))
    const all = [read(instruction), read(inner.program), ...named]
    const placeOf = (one: InstructionAccount): number =>
      all.findIndex((other) => equalBytes(other.address, one.address) && other.writable === one.writable)
    const places = sized(u32).encode(Uint8Array.from(all, placeOf))
    const accounts = [written(multisig), written(transaction), own, ...all]
    return errorOf(this.chain.send(this.#call('execute_transaction', accounts, places), first))
  }
}

test.skipIf(PATH === undefined)('squads deploy the vault, administer it and hand it over', () => {
  const binary = readFileSync(PATH!)
  expect(sha256Hex(binary)).toBe(SHA256)
  const chain = new VaultChain()
  const { program } = chain
  chain.svm.addProgram(addressOf(SQUADS), binary)
  for (const member of members) chain.fund(member)
  const [squad, next] = [new Squad(chain, 'squad'), new Squad(chain, 'next squad')]
  chain.setUpgradeAuthority(squad.address)
  const [admin, next_admin] = [squad.address, next.address].map((key) => ({ program, admin: key })) as [
    { program: Uint8Array; admin: Uint8Array },
    { program: Uint8Array; admin: Uint8Array },
  ]
  const mint = bytes32('mint')
  chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const deployment = { ...initializationOf(chain), deployer: squad.address, admin: squad.address }
  // InvalidTransactionState: too few approvals.
  expect(squad.run(initializeInstruction(deployment), 1)).toBe('custom 6001')
  const registered = { mint, token_program: TOKEN_PROGRAM, min_deposit: 1n, min_exit: 1n }
  const steps = [
    initializeInstruction(deployment),
    registerMintInstruction({ ...admin, ...registered, payer: squad.address }),
    pauseInstruction(admin),
    unpauseInstruction(admin),
    declareOutageInstruction({ ...admin, extra_s: 3 * EXIT_DELAY_S }),
    authorizeRestoreInstruction({ ...admin, action: 'announce' }),
    authorizeRestoreInstruction({ ...admin, action: 'cancel' }),
    setAdminInstruction({ ...admin, action: 'announce', key: next.address }),
  ]
  for (const step of steps) expect(squad.run(step)).toBe('landed')
  expect(next.run(pauseInstruction(next_admin))).toBe('not_admin')
  chain.setTime(2_000, 1_800_000_000 + 2 * EXIT_DELAY_S)
  expect(squad.run(setAdminInstruction({ ...admin, action: 'apply' }))).toBe('not_admin')
  expect(next.run(setAdminInstruction({ ...next_admin, action: 'apply' }))).toBe('landed')
  expect(squad.run(pauseInstruction(admin))).toBe('not_admin')
  expect(next.run(pauseInstruction(next_admin))).toBe('landed')
  expect(chain.config()).toMatchObject({
    admin: next.address,
    mint_count: 1,
    paused: true,
  })
})

test('a deposit from inside another program is a deposit like any other', () => {
  const vault = runningVault(0n)
  vault.chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  const deposit = depositInstruction(vault.depositOf(5_000n, element('inner')))
  const { events } = landed(vault.chain.send(forwarded(deposit)))
  expect(events.map(({ kind }) => kind)).toEqual(['deposited'])
  expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(5_000n)
})

test('an epoch is never opened from inside another program, whose data may be larger than any transaction', () => {
  const vault = runningVault(0n)
  vault.chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  expect(errorOf(vault.chain.send(forwarded(vault.opening()[1])))).toBe('not_top_level')
  landed(vault.openEpoch())
})

test('a multisig deploys the vault and administers it, each time as an inner call that only it signs', () => {
  const chain = new VaultChain()
  chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
  const { address } = MULTISIG
  chain.svm.airdrop(addressOf(address), 100_000_000_000n as never)
  chain.setUpgradeAuthority(address)
  const admin = { program: chain.program, admin: address }
  const mint = bytes32('mint')
  chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const minimums = { min_deposit: 1n, min_exit: 1n }
  const steps: VaultInstruction[] = [
    initializeInstruction({ ...initializationOf(chain), deployer: address, admin: address }),
    registerMintInstruction({ ...admin, ...minimums, payer: address, mint, token_program: TOKEN_PROGRAM }),
    pauseInstruction(admin),
    unpauseInstruction(admin),
    declareOutageInstruction({ ...admin, extra_s: EXIT_DELAY_S }),
    authorizeRestoreInstruction({ ...admin, action: 'announce' }),
    authorizeRestoreInstruction({ ...admin, action: 'cancel' }),
    setAdminInstruction({ ...admin, action: 'announce', key: testKey('next admin').key }),
    setAdminInstruction({ ...admin, action: 'cancel' }),
    announceInstruction({
      ...admin,
      payer: address,
      action: 'announce',
      list: 'build',
      id: bytes32('compose'),
    }),
  ]
  for (const step of steps) {
    const plain = forwarded(step)
    expect(['missing_signature', 'not_deployer']).toContain(errorOf(chain.send(plain)))
    landed(chain.send(bySignedMultisig(step)))
  }
  expect(chain.config()).toMatchObject({ admin: address, mint_count: 1 })
})
