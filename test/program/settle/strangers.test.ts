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
 * | flip_units | `units.test.ts`; here, a batch costs the same for all destinations |
 * | executable | here, the bond payer that becomes a program; `../queue/pay.test.ts`, programs and sysvars as destinations |
 * | features, feature_others | `../features.test.ts` |
 * | lying_rpc | `test/engine/lying_providers.test.ts`; here, an exit that its owner did not ask for |
 * | signer_powers 1, drain | `payouts.test.ts`, payouts above the liabilities: within them the signer is trusted |
 * | signer_powers 2, bond | `../exits.test.ts`, a served request is never refused; one spent without payout is (trusted signer) |
 * | signer_powers 3, root | here, the signer stores no root |
 */
import { expect, test } from 'bun:test'
import { lamports } from '@solana/kit'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { u64Le } from '../../../protocol/bytes'
import {
  exitRequestAddress,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  UPGRADEABLE_LOADER,
} from '../../../protocol/vault/addresses'
import { closeExitInstruction, requestExitInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { ExitNote } from '../../kit/vault/exit_note'
import { bytes32, elements, errorOf, landed, outputsOf, runningVault } from '../../kit/vault/open_vault'
import { testKey } from '../../kit/vault/vault_chain'

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

test('an exit that its owner did not ask for is not paid, whatever the venue was shown', () => {
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
