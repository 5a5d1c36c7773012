/** Payouts become queue entries within the liabilities; states of the last 2,160 slots stay citable, one entry per 18 slots. */

import { expect, test } from 'bun:test'
import { SETTLE_LIMITS } from '../../../protocol/limits'
import { EMPTY_SPENT_SUBTREES } from '../../../protocol/notes/merkle_tree'
import { type PayoutFields, settleInstruction } from '../../../protocol/vault/settle'
import {
  bytes32,
  element,
  elements,
  errorOf,
  isKnownState,
  landed,
  type OpenVault,
  outputsOf,
  runningVault,
} from '../../kit/vault/open_vault'

const refund = element('refund')
const destination = bytes32('destination')
const [SLOT, NOW_S] = [1_000, 1_800_000_000]

const send = (vault: OpenVault, payouts: PayoutFields[]): string =>
  errorOf(vault.send(vault.batchOf({ payouts })))

test('a withdrawal moves its amount from the liabilities to the queue and names its entry', () => {
  const vault = runningVault()
  const { payouts } = vault.settle({ payouts: [vault.withdrawal(20_000n, destination)] })
  const entry = { number: 1, place: 0, kind: 'withdrawal', mint: vault.mint, amount: 20_000n } as const
  const rest = { destination, inner: refund, nullifier: undefined }
  expect(payouts).toEqual([{ ...entry, ...rest, served: false }])
  expect(vault.chain.queue()).toMatchObject({
    next_number: 2,
    entries: [{ ...entry, ...rest, open: true, queued_at_s: NOW_S, queued_slot: SLOT }],
  })
  expect(vault.chain.mintRecord(vault.mint)).toMatchObject({ liabilities: 30_000n, queued: 20_000n })
  expect(vault.balance(vault.vault_token)).toBe(50_000n)
  expect(vault.chain.tree().leaf_count).toBe(1)
})

test('one batch queues payouts in several mints', () => {
  const vault = runningVault()
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const foreign = { ...vault.withdrawal(1n, destination), mint: other }
  expect(send(vault, [vault.withdrawal(1n, destination), foreign])).toBe('payout_above_liabilities')
  const source = bytes32('other source')
  vault.setToken(source, { mint: other, owner: vault.trader.key, amount: 5_000n })
  vault.depositIn(other, source, 5_000n)
  const { payouts } = vault.settle({ payouts: [foreign, vault.withdrawal(2n, destination), foreign] })
  expect(payouts.map(({ mint, number }) => [mint, number])).toEqual([
    [other, 1],
    [vault.mint, 2],
    [other, 3],
  ])
  expect(vault.chain.mintRecord(other)).toMatchObject({ liabilities: 4_998n, queued: 2n })
})

test('payouts above the liabilities are refused, also in sum', () => {
  const vault = runningVault()
  expect(send(vault, [vault.withdrawal(50_001n, destination)])).toBe('payout_above_liabilities')
  const half = vault.withdrawal(30_000n, destination)
  expect(send(vault, [half, half])).toBe('payout_above_liabilities')
  expect(send(vault, [vault.withdrawal(50_000n, destination)])).toBe('landed')
})

test('a vault that holds less than it owes queues payouts all the same', () => {
  const vault = runningVault()
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 1n })
  expect(send(vault, [vault.withdrawal(1_000n, destination)])).toBe('landed')
})

test('a payout of nothing, with a bad inner, of an unlisted mint or with stray fields is refused', () => {
  const vault = runningVault()
  const good = vault.withdrawal(1_000n, destination)
  expect(send(vault, [{ ...good, amount: 0n }])).toBe('invalid_data')
  expect(send(vault, [{ ...good, inner: new Uint8Array(32) }])).toBe('not_field_element')
  const batch = settleInstruction(vault.batchOf({ payouts: [good] }))
  const tampered = (at: number, value: number): string => {
    const data = batch.data.slice()
    data[at] = value
    return vault.chain.outcome({ ...batch, data }, vault.signer)
  }
  expect(tampered(101, 2)).toBe('invalid_data')
  expect(tampered(102, 1)).toBe('payout_mismatch')
  expect(tampered(103, 1)).toBe('invalid_data')
  expect(tampered(97, 2)).toBe('invalid_data')
  expect(tampered(97, 0)).toBe('payout_mismatch')
})

test('more payouts or mints than the limits are refused', () => {
  const vault = runningVault()
  const payouts = (count: number) => Array.from({ length: count }, () => vault.withdrawal(10n, destination))
  expect(send(vault, payouts(SETTLE_LIMITS.payouts + 1))).toBe('invalid_data')
  expect(send(vault, payouts(SETTLE_LIMITS.payouts))).toBe('landed')
  const mints = Array.from({ length: SETTLE_LIMITS.payout_mints }, (_, at) => bytes32(`mint ${at}`))
  for (const mint of mints) landed(vault.registerMint(mint))
  const each = [vault.mint, ...mints].map((mint) => ({ ...vault.withdrawal(1n, destination), mint }))
  expect(send(vault, each)).toBe('invalid_data')
})

test('queue and mint record are the vault’s own, and writable', () => {
  const vault = runningVault()
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const good = settleInstruction(vault.batchOf({ payouts: [vault.withdrawal(1_000n, destination)] }))
  expect(good.accounts).toHaveLength(7)
  for (const count of [6, 5]) {
    const fewer = { ...good, accounts: good.accounts.slice(0, count) }
    expect(vault.chain.outcome(fewer, vault.signer)).toBe('missing_accounts')
  }
  const at = (place: number, changed: { address?: Uint8Array; writable?: boolean }): string => {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, ...changed } : one))
    return vault.chain.outcome({ ...good, accounts }, vault.signer)
  }
  for (const place of [5, 6]) expect(at(place, { writable: false })).toBe('not_writable')
  expect(at(5, { address: vault.chain.vault.ring })).toBe('wrong_address')
  expect(at(6, { address: vault.chain.vault.tree })).toBe('wrong_account')
  expect(at(6, { address: vault.source })).toBe('wrong_owner')
  const copy = bytes32('copy')
  vault.chain.setAccount(copy, vault.chain.account(good.accounts[6]!.address)!.data, vault.program)
  expect(at(6, { address: copy })).toBe('wrong_address')
  expect(at(0, {})).toBe('landed')
})

const EMPTY = EMPTY_SPENT_SUBTREES[40]!
const START = { slot: 1_000, unix_s: 1_800_000_000 }

const stateOf = (vault: OpenVault) => vault.chain.tree()

test('the state left is kept, unless the newest kept one is younger than 18 slots', () => {
  const vault = runningVault(0n)
  const empty = stateOf(vault)
  vault.deposit(1_000n, element('a'))
  const one = stateOf(vault)
  expect(vault.chain.ring().states).toEqual([
    { slot: START.slot, leaf_count: 0, root: empty.root, spent_root: EMPTY },
  ])
  vault.chain.setTime(START.slot + 17, START.unix_s)
  vault.deposit(1_000n, element('b'))
  expect(vault.chain.ring().states).toHaveLength(1)
  expect(isKnownState(one, vault.chain.tree(), vault.chain.ring())).toBe(false)
  vault.chain.setTime(START.slot + 18, START.unix_s)
  const two = stateOf(vault)
  vault.deposit(1_000n, element('c'))
  expect(vault.chain.ring().states[1]).toEqual({
    slot: START.slot + 18,
    leaf_count: 2,
    root: two.root,
    spent_root: EMPTY,
  })
})

test('a kept state can be cited, one that was passed over cannot', () => {
  const vault = runningVault(0n)
  const cite = (state: { leaf_count: number; root: Uint8Array }): string => {
    const { leaf_count, root } = state
    const outputs = outputsOf(elements(`c ${leaf_count} ${vault.chain.config().last_batch}`, 1))
    return errorOf(vault.send(vault.batchOf({ outputs, cited_leaf_count: leaf_count, cited_root: root })))
  }
  const empty = stateOf(vault)
  vault.deposit(1_000n, element('a'))
  const one = stateOf(vault)
  vault.deposit(1_000n, element('b'))
  expect(cite(one)).toBe('unknown_state')
  expect(cite(empty)).toBe('landed')
})

test('the ring keeps the newest 120 states and forgets the oldest', () => {
  const vault = runningVault(0n)
  const first = stateOf(vault)
  const roots: Uint8Array[] = []
  for (let index = 0; index < 122; index++) {
    vault.chain.setTime(START.slot + 18 * index, START.unix_s)
    roots.push(stateOf(vault).root)
    landed(vault.send(vault.batchOf({ outputs: outputsOf([element(`c ${index}`)]) })))
  }
  const { states } = vault.chain.ring()
  expect(states.map(({ root }) => root)).toEqual(roots.slice(2))
  expect(states.map(({ leaf_count }) => leaf_count)).toEqual(Array.from({ length: 120 }, (_, at) => at + 2))
  const batch = vault.batchOf({ outputs: outputsOf(elements('late', 1)) })
  const cited = { ...batch, cited_leaf_count: first.leaf_count, cited_root: first.root }
  expect(errorOf(vault.send(cited))).toBe('unknown_state')
  const oldest = states[0]!
  landed(vault.send({ ...batch, cited_leaf_count: oldest.leaf_count, cited_root: oldest.root }))
})

test('a batch without notes leaves a state too, and every kept state has its spent root', () => {
  const vault = runningVault(0n)
  const roots: Uint8Array[] = []
  for (let index = 0; index < 3; index++) {
    vault.chain.setTime(START.slot + 18 * index, START.unix_s)
    roots.push(stateOf(vault).spent_root)
    vault.settle({ nullifiers: elements(`n ${index}`, 1) })
  }
  const { states } = vault.chain.ring()
  expect(states.map(({ spent_root }) => spent_root)).toEqual(roots)
  expect(states.map(({ leaf_count }) => leaf_count)).toEqual([0, 0, 0])
})

test('a refund leaves a state like a deposit', () => {
  const vault = runningVault(5_000n)
  vault.chain.setTime(START.slot + 18, START.unix_s)
  vault.settle({ payouts: [vault.withdrawal(1_000n, bytes32('nowhere'))] })
  vault.chain.setTime(START.slot + 36, START.unix_s)
  const { leaf_count, root, spent_root } = stateOf(vault)
  vault.pay()
  const slot = START.slot + 36
  expect(vault.chain.ring().states.at(-1)).toEqual({ slot, leaf_count, root, spent_root })
})
