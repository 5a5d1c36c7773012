/** Forced exit: a request is served, refused with proof, or ends the vault; nothing else closes it. */

import { expect, test } from 'bun:test'
import { decodeExitRequest } from '../../protocol/vault/accounts'
import { exitRequestAddress } from '../../protocol/vault/addresses'
import { authorizeRestoreInstruction, pauseInstruction } from '../../protocol/vault/admin'
import { depositInstruction } from '../../protocol/vault/deposit'
import {
  freezeInstruction,
  type RequestExitFields,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import type { PayoutFields } from '../../protocol/vault/settle'
import { ExitNote } from '../kit/vault/exit_note'
import { bytes32, EXIT_DELAY_S, element, elements, errorOf, landed, outputsOf } from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'

const NOW_S = 1_800_000_000
const BOND = 20_000_000n
const bond_payer = testKey('bond payer')

function requested(form: 'deposit' | 'settlement' = 'deposit'): ExitNote {
  const note = new ExitNote(form)
  note.vault.chain.fund(bond_payer)
  landed(note.vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key))))
  return note
}

const requestAccount = (note: ExitNote) =>
  note.vault.chain.account(exitRequestAddress(note.vault.program, note.nullifier))

const exitPayout = (note: ExitNote): PayoutFields => ({
  ...note.vault.withdrawal(note.opening.amount, note.destination, note.refund_inner),
  kind: 'exit',
  exit: { nullifier: note.nullifier, bond_payer: bond_payer.key },
})

for (const form of ['deposit', 'settlement'] as const)
  test(`the owner of a ${form} note requests its exit with public data and a bond`, () => {
    const note = new ExitNote(form)
    note.vault.chain.fund(bond_payer)
    const { events } = landed(note.vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key))))
    const account = requestAccount(note)!
    const { nullifier, commitment, destination, refund_inner } = note
    const request = { nullifier, commitment, mint: note.vault.mint, amount: note.opening.amount, destination }
    const deadline_s = NOW_S + EXIT_DELAY_S
    expect(decodeExitRequest(account.data)).toEqual({
      ...request,
      refund_inner,
      deadline_s,
      bond_payer: bond_payer.key,
      requested_slot: 1_000,
    })
    const { leaf_index } = note.opening
    expect(events).toEqual([{ kind: 'exit_requested', ...request, leaf_index, refund_inner, deadline_s }])
    expect(account.lamports - note.vault.chain.svm.minimumBalanceForRentExemption(240n)).toBe(BOND)
  })

test('a request needs the owner’s signature, the true opening and an inclusion in a known state', () => {
  const note = new ExitNote('deposit')
  const { chain } = note.vault
  chain.fund(bond_payer)
  const good = note.requestOf(bond_payer.key)
  const send = (fields: Partial<RequestExitFields>): string =>
    errorOf(chain.send(requestExitInstruction({ ...good, ...fields })))
  const unsigned = requestExitInstruction(good)
  unsigned.accounts[0]!.signer = false
  expect(errorOf(chain.send(unsigned))).toBe('missing_signature')
  const thief = chain.fund(testKey('thief'))
  expect(send({ owner: thief.key })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, amount: good.opening.amount + 1n } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, form: 'settlement' } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, leaf_index: 1 } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, blinding: element('other') } })).toBe('invalid_inclusion')
  expect(send({ path: [element('sibling'), ...good.path.slice(1)] })).toBe('invalid_inclusion')
  expect(send({ cited_root: element('root') })).toBe('unknown_state')
  expect(send({ cited_leaf_count: 0 })).toBe('invalid_inclusion')
  expect(send({ nullifier: element('other') })).toBe('wrong_address')
  expect(send({ refund_inner: new Uint8Array(32) })).toBe('not_field_element')
})

test('a note below the minimum cannot request an exit', () => {
  const note = new ExitNote('settlement', 499n)
  note.vault.chain.fund(bond_payer)
  const sent = note.vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key)))
  expect(errorOf(sent)).toBe('below_min_exit')
})

test('one note has one open request', () => {
  const note = requested()
  const again = requestExitInstruction(note.requestOf(bond_payer.key))
  expect(errorOf(note.vault.chain.send(again))).toBe('exit_already_requested')
})

test('an exit can be requested while the vault is paused', () => {
  const note = new ExitNote('deposit')
  note.vault.chain.fund(bond_payer)
  landed(
    note.vault.chain.send(pauseInstruction({ program: note.vault.program, admin: note.vault.admin.key })),
  )
  landed(note.vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key))))
})

test('a served exit pays the destination, closes the request and returns rent and bond', () => {
  const note = requested()
  const before = note.vault.chain.account(bond_payer.key)!.lamports
  const held = requestAccount(note)!.lamports
  const event = note.vault.settle({ nullifiers: [note.nullifier], payouts: [exitPayout(note)] })
  expect(event.payouts[0]).toMatchObject({ kind: 'exit', outcome: 'paid', nullifier: note.nullifier })
  expect(note.vault.balance(note.destination)).toBe(note.opening.amount)
  expect(requestAccount(note)).toBeUndefined()
  expect(note.vault.chain.account(bond_payer.key)!.lamports).toBe(before + held)
})

test('an exit to an unusable destination is served with a refund note', () => {
  const note = requested()
  note.vault.setToken(note.destination, { owner: note.vault.trader.key, state: 'frozen' })
  const event = note.vault.settle({ nullifiers: [note.nullifier], payouts: [exitPayout(note)] })
  expect(event.payouts[0]).toMatchObject({ outcome: 'destination_frozen', refund: { leaf_index: 1 } })
  expect(note.vault.chain.tree().root).toEqual(note.vault.tree.root())
  expect(requestAccount(note)).toBeUndefined()
})

test('an exit payout must match its request in everything', () => {
  const note = requested()
  const { vault } = note
  const good = exitPayout(note)
  const elsewhere = bytes32('elsewhere')
  vault.setToken(elsewhere, { owner: vault.trader.key })
  const nullifiers = [note.nullifier]
  const batch = vault.batchOf({ nullifiers })
  const send = (payout: PayoutFields, values = nullifiers): string =>
    errorOf(vault.send({ ...batch, nullifiers: values, payouts: [payout] }))
  expect(send({ ...good, amount: good.amount - 1n })).toBe('payout_mismatch')
  expect(send({ ...good, destination: elsewhere })).toBe('payout_mismatch')
  expect(send({ ...good, inner: element('other') })).toBe('payout_mismatch')
  const stolen = { nullifier: note.nullifier, bond_payer: vault.signer.key }
  expect(send({ ...good, exit: stolen })).toBe('wrong_address')
  const other = element('other')
  const foreign = { ...good, exit: { nullifier: other, bond_payer: bond_payer.key } }
  expect(send(foreign, [other])).toBe('wrong_owner')
})

test('a request for a spent note is refused with proof, under an earlier spent root too', () => {
  for (const later of [false, true]) {
    const note = requested()
    const { vault } = note
    vault.settle({ nullifiers: [note.nullifier] })
    const cited_spent_root = vault.chain.config().spent_root
    const { leaf, siblings } = vault.spent.witness(note.nullifier)
    if (later) vault.settle({ nullifiers: elements('more', 2) })
    const refuser = vault.chain.fund(testKey('refuser'))
    const held = requestAccount(note)!.lamports
    const before = vault.chain.account(refuser.key)!.lamports
    const refuse = refuseExitInstruction({
      program: vault.program,
      refuser: refuser.key,
      nullifier: note.nullifier,
      cited_spent_root,
      next_value: leaf.next_value,
      leaf_index: leaf.index,
      path: siblings,
    })
    const { events } = landed(vault.chain.send(refuse))
    expect(events).toEqual([{ kind: 'exit_refused', nullifier: note.nullifier, refuser: refuser.key }])
    expect(requestAccount(note)).toBeUndefined()
    expect(vault.chain.account(refuser.key)!.lamports).toBe(before + held)
  }
})

test('an unspent note’s request cannot be refused', () => {
  const note = requested()
  const { vault } = note
  vault.settle({ nullifiers: elements('others', 3) })
  const { leaf, siblings } = vault.spent.witness(note.nullifier)
  const refuser = vault.chain.fund(testKey('refuser'))
  const fields = {
    program: vault.program,
    refuser: refuser.key,
    nullifier: note.nullifier,
    cited_spent_root: vault.spent.root(),
    next_value: leaf.next_value,
    leaf_index: leaf.index,
    path: siblings,
  }
  expect(errorOf(vault.chain.send(refuseExitInstruction(fields)))).toBe('invalid_spent_proof')
  const unknown = { ...fields, cited_spent_root: element('root') }
  expect(errorOf(vault.chain.send(refuseExitInstruction(unknown)))).toBe('unknown_spent_root')
})

test('a missed deadline freezes the vault for ever and returns the bond', () => {
  const note = requested()
  const { vault } = note
  const fields = { program: vault.program, nullifier: note.nullifier, bond_payer: bond_payer.key }
  const freeze = freezeInstruction(fields)
  vault.chain.setTime(2_000, NOW_S + EXIT_DELAY_S)
  expect(errorOf(vault.chain.send(freeze))).toBe('deadline_not_reached')
  vault.chain.setTime(2_000, NOW_S + EXIT_DELAY_S + 1)
  const stolen = freezeInstruction({ ...fields, bond_payer: vault.trader.key })
  expect(errorOf(vault.chain.send(stolen))).toBe('wrong_address')
  const before = vault.chain.account(bond_payer.key)!.lamports
  const held = requestAccount(note)!.lamports
  const { events } = landed(vault.chain.send(freeze))
  const frozen_at_s = NOW_S + EXIT_DELAY_S + 1
  expect(events).toEqual([{ kind: 'frozen', nullifier: note.nullifier, frozen_at_s, first: true }])
  expect(vault.chain.config()).toMatchObject({ frozen: true, frozen_at_s })
  expect(vault.chain.account(bond_payer.key)!.lamports).toBe(before + held)
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  expect(errorOf(vault.send(batch))).toBe('vault_frozen')
  const deposit = depositInstruction(vault.depositOf(5_000n, element('x')))
  expect(errorOf(vault.chain.send(deposit))).toBe('vault_frozen')
  const request = requestExitInstruction(note.requestOf(bond_payer.key))
  expect(errorOf(vault.chain.send(request))).toBe('vault_frozen')
  expect(errorOf(vault.registerMint(bytes32('late mint')))).toBe('vault_frozen')
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  expect(vault.chain.config().frozen).toBe(true)
})
