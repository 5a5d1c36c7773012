/** The vault computes a deposit's commitment, leaf and root itself, and takes exactly the tokens it promises notes for. */
import { expect, test } from 'bun:test'
import { FIELD_MODULUS, fieldToBytes } from '../../protocol/field'
import { depositCommitment } from '../../protocol/notes/notes'
import { pauseInstruction } from '../../protocol/vault/admin'
import { depositInstruction } from '../../protocol/vault/deposit'
import {
  bytes32,
  element,
  errorOf,
  landed,
  MIN_DEPOSIT,
  OpenVault,
  runningVault,
} from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'

const inner = element('inner')

test('a deposit moves the tokens, raises the liabilities and appends the note the protocol computes', () => {
  const vault = runningVault(0n)
  const sent = landed(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))
  const commitment = depositCommitment({ mint: vault.mint, amount: 5_000n, inner, leaf_index: 0 })
  vault.tree.append([commitment])
  expect(vault.balance(vault.vault_token)).toBe(5_000n)
  expect(vault.balance(vault.source)).toBe(1_000_000_000n - 5_000n)
  expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(5_000n)
  expect(vault.chain.tree()).toMatchObject({ leaf_count: 1, root: vault.tree.root() })
  const event = {
    kind: 'deposited' as const,
    leaf_index: 0,
    mint: vault.mint,
    amount: 5_000n,
    inner,
    commitment,
    note_root: vault.tree.root(),
    depositor: vault.trader.key,
  }
  expect(sent.events).toEqual([event])
})

test('equal deposits become different notes and every root equals the protocol tree', () => {
  const vault = runningVault(0n)
  for (let count = 1; count <= 9; count++) {
    vault.deposit(MIN_DEPOSIT, inner)
    expect(vault.chain.tree()).toMatchObject({ leaf_count: count, root: vault.tree.root() })
  }
  expect(vault.tree.leaf(3)).not.toEqual(vault.tree.leaf(4))
})

test('a deposit below the minimum, of a bad inner or of other length is refused', () => {
  const vault = runningVault(0n)
  const send = (amount: bigint, value: Uint8Array): string =>
    errorOf(vault.chain.send(depositInstruction(vault.depositOf(amount, value))))
  expect(send(MIN_DEPOSIT - 1n, inner)).toBe('below_min_deposit')
  expect(send(5_000n, new Uint8Array(32))).toBe('not_field_element')
  const modulus = fieldToBytes(FIELD_MODULUS - 1n)
  modulus[31]! += 1
  expect(send(5_000n, modulus)).toBe('not_field_element')
  const short = depositInstruction(vault.depositOf(5_000n, inner))
  expect(errorOf(vault.chain.send({ ...short, data: short.data.slice(0, 40) }))).toBe('invalid_data')
  expect(errorOf(vault.chain.send({ ...short, data: new Uint8Array([...short.data, 0]) }))).toBe(
    'invalid_data',
  )
})

test('the depositor must sign and own the source', () => {
  const vault = runningVault(0n)
  const unsigned = depositInstruction(vault.depositOf(5_000n, inner))
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
  const thief = vault.chain.fund(testKey('thief'))
  const stolen = depositInstruction({ ...vault.depositOf(5_000n, inner), depositor: thief.key })
  expect(errorOf(vault.chain.send(stolen))).toBe('custom 4')
})

test('the vault cannot deposit from itself', () => {
  const vault = runningVault(0n)
  vault.deposit(5_000n, inner)
  const own = depositInstruction({ ...vault.depositOf(5_000n, inner), source: vault.vault_token })
  expect(errorOf(vault.chain.send(own))).toBe('source_is_vault')
})

test('each account of a deposit must be the one of this vault and mint', () => {
  const vault = runningVault(0n)
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const cases: [number, Uint8Array, string][] = []
  const good = depositInstruction(vault.depositOf(5_000n, inner))
  const foreign = depositInstruction({ ...vault.depositOf(5_000n, inner), mint: other })
  const at = (name: number): Uint8Array => foreign.accounts[name]!.address
  cases.push([2, vault.source, 'wrong_owner'], [2, vault.chain.vault.tree, 'wrong_account'])
  cases.push([3, vault.chain.vault.config, 'wrong_address'], [4, vault.chain.vault.tree, 'wrong_address'])
  cases.push([5, at(5), 'wrong_address'], [6, other, 'wrong_address'], [7, at(7), 'wrong_address'])
  cases.push([8, bytes32('token program'), 'wrong_address'], [9, bytes32('program'), 'wrong_address'])
  for (const [place, address, error] of cases) {
    const accounts = good.accounts.map((account, index) =>
      index === place ? { ...account, address } : account,
    )
    expect([place, errorOf(vault.chain.send({ ...good, accounts }))]).toEqual([place, error])
  }
  expect(errorOf(vault.chain.send({ ...good, accounts: good.accounts.slice(0, 9) }))).toBe('missing_accounts')
})

test('the source and the state accounts must be writable', () => {
  const vault = runningVault(0n)
  for (const place of [1, 3, 4, 5, 7]) {
    const sent = depositInstruction(vault.depositOf(5_000n, inner))
    sent.accounts[place]!.writable = false
    expect(errorOf(vault.chain.send(sent))).toBe('not_writable')
  }
})

test('a copy of the config at another address owned by the program is not the config', () => {
  const vault = runningVault(0n)
  const copy = bytes32('copy')
  vault.chain.setAccount(copy, vault.chain.account(vault.chain.vault.config)!.data, vault.program)
  const sent = depositInstruction(vault.depositOf(5_000n, inner))
  sent.accounts[2]!.address = copy
  expect(errorOf(vault.chain.send(sent))).toBe('wrong_address')
})

test('a paused vault takes no deposit', () => {
  const vault = runningVault(0n)
  landed(vault.chain.send(pauseInstruction({ program: vault.program, admin: vault.admin.key })))
  expect(errorOf(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))).toBe('vault_paused')
})

test('a vault that holds less than it owes takes no deposit', () => {
  const vault = runningVault(0n)
  vault.deposit(5_000n, inner)
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 4_000n })
  expect(errorOf(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))).toBe('insolvent')
})

test('queued payouts are owed too', () => {
  const vault = runningVault(5_000n)
  vault.settle({ payouts: [vault.withdrawal(4_000n, bytes32('destination'))] })
  expect(vault.chain.mintRecord(vault.mint)).toMatchObject({ liabilities: 1_000n, queued: 4_000n })
  const deposit = depositInstruction(vault.depositOf(MIN_DEPOSIT, inner))
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 4_999n })
  expect(vault.chain.outcome(deposit)).toBe('insolvent')
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 5_000n })
  expect(vault.chain.outcome(deposit)).toBe('landed')
})

test('a vault without an epoch takes no deposit', () => {
  const vault = new OpenVault()
  expect(errorOf(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))).toBe('stale_epoch')
})
