/** How large a batch may be, and that its accounts are what they must be also where nothing is paid. */

import { expect, test } from 'bun:test'
import { SETTLE_LIMITS } from '../../protocol/limits'
import { depositInstruction } from '../../protocol/vault/deposit'
import { refuseExitInstruction, requestExitInstruction } from '../../protocol/vault/exits'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { encodeSettleData, settleInstruction } from '../../protocol/vault/settle'
import { ExitNote } from '../kit/vault/exit_note'
import { bytes32, element, elements, errorOf, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'

function fundedVault(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(100_000n, element('inner'))
  return vault
}

const readonlyAt = (instruction: VaultInstruction, place: number): VaultInstruction => ({
  ...instruction,
  accounts: instruction.accounts.map((one, at) => (at === place ? { ...one, writable: false } : one)),
})

test('one nullifier more than the limit is refused', () => {
  const vault = fundedVault()
  const batch = vault.batchOf({ nullifiers: elements('n', SETTLE_LIMITS.nullifiers + 1) })
  expect(errorOf(vault.send(batch))).toBe('invalid_data')
})

test('one payout more than the limit is refused', () => {
  const vault = fundedVault()
  const destination = bytes32('destination')
  vault.setToken(destination, { owner: vault.trader.key })
  const paid = (count: number) =>
    vault.batchOf({ payouts: Array.from({ length: count }, () => vault.withdrawal(10n, destination)) })
  expect(errorOf(vault.send(paid(SETTLE_LIMITS.payouts + 1)))).toBe('invalid_data')
  landed(vault.send(paid(SETTLE_LIMITS.payouts)))
})

test('payouts in more mints than the limit are refused', () => {
  const vault = fundedVault()
  const mints = Array.from({ length: SETTLE_LIMITS.payout_mints }, (_, at) => bytes32(`mint ${at}`))
  for (const mint of mints) landed(vault.registerMint(mint))
  const destination = bytes32('destination')
  const payouts = [vault.mint, ...mints].map((mint) => ({ ...vault.withdrawal(1n, destination), mint }))
  expect(errorOf(vault.send(vault.batchOf({ payouts })))).toBe('invalid_data')
})

test('the vault token account is writable also where every payout comes back', () => {
  const vault = fundedVault()
  const good = settleInstruction(vault.batchOf({ payouts: [vault.withdrawal(10n, bytes32('nobody'))] }))
  expect(vault.chain.outcome(readonlyAt(good, 7), vault.signer)).toBe('not_writable')
  expect(vault.chain.outcome(good, vault.signer)).toBe('landed')
})

test('who gets a bond is writable', () => {
  const [note, payer] = [new ExitNote('deposit'), testKey('payer')]
  const { vault, nullifier, refund_inner, destination, opening } = note
  landed(vault.chain.send(requestExitInstruction(note.requestOf(payer.key))))
  const exit = { nullifier, bond_payer: payer.key }
  const payout = vault.withdrawal(opening.amount, destination, refund_inner)
  const batch = vault.batchOf({ nullifiers: [nullifier], payouts: [{ ...payout, kind: 'exit', exit }] })
  const served = settleInstruction(batch)
  expect(vault.chain.outcome(readonlyAt(served, 11), vault.signer)).toBe('not_writable')
  landed(vault.chain.send(settleInstruction({ ...batch, payouts: [] }), vault.signer))
  const { leaf, siblings } = vault.spent.witness(nullifier)
  const refuser = vault.chain.fund(testKey('refuser'))
  const proof = { next_value: leaf.next_value, leaf_index: leaf.index, path: siblings }
  const cited_spent_root = vault.spent.root()
  const refusal = refuseExitInstruction({
    program: vault.program,
    refuser: refuser.key,
    nullifier,
    cited_spent_root,
    ...proof,
  })
  expect(vault.chain.outcome(readonlyAt(refusal, 0))).toBe('not_writable')
  landed(vault.chain.send(refusal))
})

test('an exit is paid in the mint of its request', () => {
  const note = new ExitNote('deposit')
  const { vault, nullifier, refund_inner, destination, opening } = note
  landed(vault.chain.send(requestExitInstruction(note.requestOf(testKey('payer').key))))
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const source = bytes32('other source')
  vault.setToken(source, { mint: other, owner: vault.trader.key, amount: 2n * opening.amount })
  const deposit = { ...vault.depositOf(2n * opening.amount, element('other')), mint: other, source }
  landed(vault.chain.send(depositInstruction(deposit)))
  const exit = { nullifier, bond_payer: testKey('payer').key }
  const payout = {
    ...vault.withdrawal(opening.amount, destination, refund_inner),
    kind: 'exit' as const,
    exit,
  }
  const batch = vault.batchOf({ nullifiers: [nullifier], payouts: [payout] })
  const swapped = { ...batch, payouts: [{ ...payout, mint: other }] }
  expect(errorOf(vault.send(swapped))).toBe('payout_mismatch')
  landed(vault.send(batch))
})

test('an exit spends its nullifier: an output of the same bytes is none', () => {
  const note = new ExitNote('deposit')
  const { vault, nullifier, refund_inner, destination, opening } = note
  const payer = testKey('payer')
  landed(vault.chain.send(requestExitInstruction(note.requestOf(payer.key))))
  const exit = { nullifier, bond_payer: payer.key }
  const payout = vault.withdrawal(opening.amount, destination, refund_inner)
  const batch = vault.batchOf({ outputs: outputsOf([nullifier]) })
  const spending = {
    ...batch,
    nullifiers: [nullifier],
    payouts: [{ ...payout, kind: 'exit' as const, exit }],
  }
  const { program, accounts } = settleInstruction(spending)
  const { amount, inner } = payout
  const unspent = { kind: 'exit' as const, mint: 0, nullifier: 0, amount, inner }
  const data = encodeSettleData({ ...batch, payouts: [unspent], payout_mints: 1 })
  expect(errorOf(vault.chain.send({ program, accounts, data }, vault.signer))).toBe('payout_mismatch')
})
