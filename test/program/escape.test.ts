/** Escape: in a frozen vault the owner of an unspent note is paid once, with the seed and public chain data alone. */

import { expect, test } from 'bun:test'
import { toHex } from '../../protocol/bytes'
import { decodeEscapeRecord } from '../../protocol/vault/accounts'
import { escapeRecordAddress, exitRequestAddress } from '../../protocol/vault/addresses'
import {
  type EscapeFields,
  escapeInstruction,
  freezeInstruction,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import { ExitNote } from '../kit/vault/exit_note'
import { EXIT_DELAY_S, element, errorOf, landed } from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'

const payer = testKey('payer')

/** A vault frozen over another note's request, with the note under test still open. */
function frozen(form: 'deposit' | 'settlement', spend = false): ExitNote {
  const note = new ExitNote(form)
  const { vault } = note
  note.mingle()
  landed(vault.chain.send(requestExitInstruction(note.requestOf(payer.key))))
  if (spend) vault.settle({ nullifiers: [note.nullifier] })
  vault.chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S + 1)
  const { program } = vault
  landed(vault.chain.send(freezeInstruction({ program, nullifier: note.nullifier, bond_payer: payer.key })))
  return note
}

for (const form of ['deposit', 'settlement'] as const)
  test(`an unspent ${form} note is paid in full, once`, () => {
    const note = frozen(form)
    const { vault, nullifier, destination } = note
    const { amount } = note.opening
    const owed = vault.chain.mintRecord(vault.mint).liabilities
    const sent = landed(vault.chain.send(escapeInstruction(note.escapeOf(payer.key))))
    expect(sent.events).toEqual([{ kind: 'escaped', nullifier, mint: vault.mint, amount, destination }])
    expect(sent.bytes).toBeLessThanOrEqual(4_096)
    expect(vault.balance(destination)).toBe(amount)
    expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(owed - amount)
    const record = vault.chain.account(escapeRecordAddress(vault.program, nullifier))!
    expect(decodeEscapeRecord(record.data)).toEqual({ nullifier, amount })
    expect(errorOf(vault.chain.send(escapeInstruction(note.escapeOf(payer.key))))).toBe('already_escaped')
  })

test('nothing escapes from a vault that is not frozen', () => {
  const note = new ExitNote('deposit')
  expect(errorOf(note.vault.chain.send(escapeInstruction(note.escapeOf(payer.key))))).toBe('not_frozen')
})

test('a spent note does not escape', () => {
  const note = frozen('deposit', true)
  const { vault } = note
  const good = note.escapeOf(payer.key)
  expect(errorOf(vault.chain.send(escapeInstruction(good)))).toBe('note_spent')
  const forged = { ...good, low_value: new Uint8Array(32), low_next: new Uint8Array(32), low_index: 0 }
  expect(errorOf(vault.chain.send(escapeInstruction(forged)))).toBe('invalid_spent_proof')
})

test('a spent note does not escape by the leaf before it, which the final tree holds', () => {
  const note = frozen('deposit', true)
  const { vault, nullifier } = note
  const before = nullifier.slice()
  before[31]! -= 1
  const { leaf, siblings } = vault.spent.witness(before)
  expect(toHex(leaf.next_value)).toBe(toHex(nullifier))
  const low = { low_value: leaf.value, low_next: leaf.next_value, low_index: leaf.index, low_path: siblings }
  const forged = escapeInstruction({ ...note.escapeOf(payer.key), ...low })
  expect(errorOf(vault.chain.send(forged))).toBe('note_spent')
})

test('an escape needs the owner’s signature, the true opening and both proofs', () => {
  const note = frozen('deposit')
  const { chain } = note.vault
  const good = note.escapeOf(payer.key)
  const send = (fields: Partial<EscapeFields>): string =>
    errorOf(chain.send(escapeInstruction({ ...good, ...fields })))
  const unsigned = escapeInstruction(good)
  unsigned.accounts[0]!.signer = false
  expect(errorOf(chain.send(unsigned))).toBe('missing_signature')
  const thief = chain.fund(testKey('thief'))
  expect(send({ owner: thief.key })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, amount: good.opening.amount + 1n } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, leaf_index: 1 << 20 } })).toBe('invalid_inclusion')
  expect(send({ path: [...good.path.slice(1), element('sibling')] })).toBe('invalid_inclusion')
  expect(send({ low_path: [...good.low_path.slice(1), element('sibling')] })).toBe('invalid_spent_proof')
  expect(send({ low_index: good.low_index + 1 })).toBe('invalid_spent_proof')
  expect(send({ low_next: new Uint8Array(32).fill(0xff) })).toBe('not_field_element')
  expect(send({ nullifier: element('other') })).toBe('wrong_address')
  expect(send({ destination: thief.key })).toBe('destination_unusable')
  expect(send({ destination: note.vault.vault_token })).toBe('destination_unusable')
  expect(send({})).toBe('landed')
})

test('an escape returns the bond of the note’s own open request', () => {
  const bond_payer = testKey('bond payer')
  const note = new ExitNote('deposit')
  const { vault } = note
  vault.chain.fund(bond_payer)
  landed(vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key))))
  const request = exitRequestAddress(vault.program, note.nullifier)
  const config = vault.chain.account(vault.chain.vault.config)!.data
  config[4] = 1
  vault.chain.setAccount(vault.chain.vault.config, config, vault.program)
  const held = vault.chain.account(request)!.lamports
  const before = vault.chain.account(bond_payer.key)!.lamports
  const stolen = { ...note.escapeOf(payer.key), bond_payer: payer.key }
  expect(errorOf(vault.chain.send(escapeInstruction(stolen)))).toBe('wrong_address')
  landed(vault.chain.send(escapeInstruction({ ...stolen, bond_payer: bond_payer.key })))
  expect(vault.chain.account(request)).toBeUndefined()
  expect(vault.chain.account(bond_payer.key)!.lamports).toBe(before + held)
})
