/** Payouts become queue entries within the liabilities, and nothing that a stranger chooses stops a batch or its cost. */

import { expect, test } from 'bun:test'
import { lamports } from '@solana/kit'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { u64Le } from '../../../protocol/bytes'
import { SETTLE_LIMITS } from '../../../protocol/limits'
import { EMPTY_SPENT_SUBTREES } from '../../../protocol/notes/merkle_tree'
import {
  exitRequestAddress,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  UPGRADEABLE_LOADER,
} from '../../../protocol/vault/addresses'
import { closeExitInstruction, requestExitInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
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
import { testKey } from '../../kit/vault/vault_chain'
import { ExitNote } from '../../kit/vault/wind_down'

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

/**
 * Nothing that a stranger chooses stops a batch or changes its cost: destinations, bond payers, requests. Each attack on
 * version 1, and the tests that repeat it:
 *
 * | attack | tests |
 * |---|---|
 * | venue_killed | here, the bond payer that becomes the destination; `test/engine/chain/payouts.test.ts` on a whole venue |
 * | bond_is_destination | here, the bond payer that becomes the destination, and that another payout pays |
 * | big_destination, big_withdrawal | here, 10 MiB; `test/engine/chain/payouts.test.ts`, 3 MiB |
 * | closed_between | `test/engine/chain/payouts.test.ts`, closed after the payment was signed; `griefing.test.ts` |
 * | flip_units | `griefing.test.ts`; here, a batch costs the same for all destinations |
 * | executable | here, the bond payer that becomes a program; `../queue/pay.test.ts`, programs and sysvars as destinations |
 * | features, feature_others | `../aliases.test.ts` |
 * | lying_rpc | `test/engine/lying_providers.test.ts`; here, an exit that its owner did not ask for |
 * | signer_powers 1, drain | `payouts.test.ts`, payouts above the liabilities: within them the signer is trusted |
 * | signer_powers 2, bond | `../exits.test.ts`, a served request is never refused; one spent without payout is (trusted signer) |
 * | signer_powers 3, root | here, the signer stores no root |
 */

const stranger = testKey('stranger')

/** The stranger's key becomes a token account by instructions that anyone can send. */
function becomeTokenAccount({ vault, owner }: ExitNote): void {
  const self = { address: stranger.key, signer: true, writable: true }
  const allocate = Uint8Array.of(8, 0, 0, 0, ...u64Le(165))
  const assign = Uint8Array.of(1, 0, 0, 0, ...TOKEN_PROGRAM)
  const initialize = Uint8Array.of(18, ...owner.key)
  const mint = { address: vault.mint, signer: false, writable: false }
  const steps: VaultInstruction[] = [
    { program: SYSTEM_PROGRAM, accounts: [self], data: allocate },
    { program: SYSTEM_PROGRAM, accounts: [self], data: assign },
    { program: TOKEN_PROGRAM, accounts: [{ ...self, signer: false }, mint], data: initialize },
  ]
  for (const step of steps) landed(vault.chain.send(step))
}

function requestedTo(destination: (note: ExitNote) => Uint8Array): ExitNote {
  const note = new ExitNote('deposit')
  note.vault.chain.fund(stranger)
  const fields = { ...note.requestOf(stranger.key), destination: destination(note) }
  landed(note.vault.chain.send(requestExitInstruction(fields)))
  return note
}

function closeFor({ vault, nullifier }: ExitNote): VaultInstruction {
  return closeExitInstruction({ program: vault.program, nullifier, bond_payer: stranger.key })
}

test('a bond payer that becomes the destination is paid and gets its bond', () => {
  const note = requestedTo(() => stranger.key)
  const { vault, nullifier, opening } = note
  becomeTokenAccount(note)
  const payout = { ...note.payout(), destination: stranger.key }
  const { payouts } = vault.settle({ nullifiers: [nullifier], payouts: [payout] })
  expect(payouts[0]!.served).toBe(true)
  expect(vault.pay()[0]!.outcome).toBe('paid')
  expect(vault.balance(stranger.key)).toBe(opening.amount)
  const before = vault.chain.account(stranger.key)!.lamports
  landed(vault.chain.send(closeFor(note)))
  expect(vault.chain.account(stranger.key)!.lamports).toBeGreaterThan(before + 20_000_000n)
})

test('a bond payer that another payout of the batch pays hinders neither', () => {
  const note = requestedTo(({ destination }) => destination)
  const { vault, nullifier } = note
  vault.deposit(5_000n, elements('more', 1)[0]!)
  becomeTokenAccount(note)
  const withdrawal = vault.withdrawal(1_000n, stranger.key)
  vault.settle({ nullifiers: [nullifier], payouts: [withdrawal, note.payout(), withdrawal] })
  expect(vault.pay().map(({ outcome }) => outcome)).toEqual(['paid', 'paid', 'paid'])
  landed(vault.chain.send(closeFor(note)))
})

test('a bond payer that becomes a program hinders no batch', () => {
  const note = requestedTo(({ destination }) => destination)
  const { vault, nullifier } = note
  const data = Uint8Array.of(2, 0, 0, 0, ...bytes32('program data'))
  vault.chain.svm.setAccount({
    address: addressOf(stranger.key),
    data,
    executable: true,
    lamports: lamports(10_000_000_000n),
    programAddress: addressOf(UPGRADEABLE_LOADER),
    space: 36n,
  })
  expect(vault.settle({ nullifiers: [nullifier], payouts: [note.payout()] }).payouts[0]!.served).toBe(true)
  expect(vault.pay()[0]!.outcome).toBe('paid')
})

test('a destination of 10 MiB costs its batch nothing and is refunded', () => {
  const large = bytes32('large')
  const note = requestedTo(() => large)
  const { vault, nullifier } = note
  vault.chain.setAccount(large, new Uint8Array(10 * 1_048_576), TOKEN_PROGRAM, 100_000_000_000n)
  vault.settle({ nullifiers: [nullifier], payouts: [{ ...note.payout(), destination: large }] })
  const { events } = landed(vault.chain.send(vault.payment(), vault.chain.payer, 64 * 1_048_576))
  expect(events[0]).toMatchObject({ kind: 'paid', outcome: 'destination_missing' })
  expect(vault.chain.queue().entries).toEqual([])
})

test('a batch costs the same for all destinations, and loads none of them', () => {
  const units = (prepare: (to: Uint8Array) => void, vault = runningVault()): bigint => {
    const to = bytes32('to')
    prepare.call(vault, to)
    const payouts = Array.from({ length: 13 }, () => vault.withdrawal(100n, to))
    return vault.settle({ nullifiers: elements('n', 13), outputs: outputsOf(elements('c', 2)), payouts })
      .units
  }
  const missing = units(() => {})
  const vault = runningVault()
  expect(units((to) => vault.setToken(to, { owner: vault.trader.key }), vault)).toBe(missing)
  const large = runningVault()
  const bytes = new Uint8Array(10 * 1_048_576)
  expect(units((to) => large.chain.setAccount(to, bytes, TOKEN_PROGRAM, 100_000_000_000n), large)).toBe(
    missing,
  )
})

test('lamports sent to the address of a request hinder neither the request nor its batch', () => {
  const note = new ExitNote('deposit')
  const { vault, nullifier } = note
  const account = exitRequestAddress(vault.program, nullifier)
  vault.chain.fund(stranger)
  vault.chain.setAccount(account, new Uint8Array(), SYSTEM_PROGRAM, 5_000_000n)
  landed(vault.chain.send(requestExitInstruction(note.requestOf(stranger.key))))
  vault.chain.svm.airdrop(addressOf(account), lamports(5_000_000n))
  expect(vault.settle({ nullifiers: [nullifier], payouts: [note.payout()] }).payouts[0]!.served).toBe(true)
})

test("an exit that its owner did not request is not paid, whatever the chain's nodes showed", () => {
  const note = requestedTo(({ destination }) => destination)
  const { vault, nullifier } = note
  const thief = bytes32('thief')
  vault.setToken(thief, { owner: stranger.key })
  const payouts = [{ ...note.payout(), destination: thief }]
  expect(errorOf(vault.send(vault.batchOf({ nullifiers: [nullifier], payouts })))).toBe('payout_mismatch')
  vault.settle({ nullifiers: [nullifier], payouts: [note.payout()] })
  vault.pay()
  expect(vault.balance(note.destination)).toBe(note.opening.amount)
})

test('the signer stores no root: data that would carry one is refused, and the log holds what was spent', () => {
  const vault = runningVault()
  const { payouts } = vault.settle({ nullifiers: elements('n', 2) })
  expect(payouts).toEqual([])
  expect(vault.chain.tree().spent_root).toEqual(vault.spent.root())
  expect(errorOf(vault.openEpoch({ spent_root: bytes32('garbage') }))).toBe('spent_root_mismatch')
  expect(vault.chain.tree().spent_root).toEqual(vault.spent.root())
})
