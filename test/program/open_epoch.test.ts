/** An epoch fences every earlier instance, and the journal position on chain never goes back without a restore. */

import { expect, test } from 'bun:test'
import { authorizeRestoreInstruction } from '../../protocol/vault/admin'
import { anchorInstruction, type OpenEpochFields, openEpochInstruction } from '../../protocol/vault/epochs'
import { bytes32, EXIT_DELAY_S, errorOf, landed, OpenVault } from '../kit/vault/open_vault'
import { type Failed, type Landed, testKey } from '../kit/vault/vault_chain'

const FIRST: OpenEpochFields = {
  epoch: 1,
  boot_nonce: bytes32('nonce').slice(0, 16),
  compose_hash: bytes32('compose'),
  journal_seq: 7,
  journal_head: bytes32('seven'),
  restore: false,
  generation: 0,
}

function open(vault: OpenVault, fields: Partial<OpenEpochFields> = {}): Landed | Failed {
  const { program, signer } = vault
  return vault.chain.send(
    openEpochInstruction({ ...FIRST, ...fields, program, settlement_signer: signer.key }),
  )
}

function anchor(vault: OpenVault, epoch: number, seq: number, head: string): Landed | Failed {
  const { program, signer } = vault
  const fields = {
    program,
    settlement_signer: signer.key,
    epoch,
    journal_seq: seq,
    journal_head: bytes32(head),
  }
  return vault.chain.send(anchorInstruction(fields))
}

test('the first epoch stores nonce, compose hash and journal position, and says so in an event', () => {
  const vault = new OpenVault()
  const { events } = landed(open(vault))
  const { restore, ...stored } = FIRST
  expect(events).toEqual([{ kind: 'epoch_opened', ...stored, restored: restore }])
  expect(vault.chain.config()).toMatchObject({ ...stored, epoch_slot: 1_000 })
})

test('an epoch is exactly one above the last', () => {
  const vault = new OpenVault()
  expect(errorOf(open(vault, { epoch: 0 }))).toBe('epoch_out_of_sequence')
  expect(errorOf(open(vault, { epoch: 2 }))).toBe('epoch_out_of_sequence')
  landed(open(vault))
  expect(errorOf(open(vault))).toBe('epoch_out_of_sequence')
  landed(open(vault, { epoch: 2 }))
})

test('an older disk cannot open an epoch, nor one with another head at the same position', () => {
  const vault = new OpenVault()
  landed(open(vault))
  landed(anchor(vault, 1, 9, 'nine'))
  expect(errorOf(open(vault, { epoch: 2 }))).toBe('journal_regressed')
  const fork = { epoch: 2, journal_seq: 9, journal_head: bytes32('other') }
  expect(errorOf(open(vault, fork))).toBe('journal_conflict')
  landed(open(vault, { ...fork, journal_head: bytes32('nine') }))
})

test('only the settlement signer opens an epoch or anchors', () => {
  const vault = new OpenVault()
  const thief = vault.chain.fund(testKey('thief'))
  const forged = openEpochInstruction({ ...FIRST, program: vault.program, settlement_signer: thief.key })
  expect(errorOf(vault.chain.send(forged))).toBe('not_settlement_signer')
  landed(open(vault))
  const fields = { epoch: 1, journal_seq: 9, journal_head: bytes32('nine'), program: vault.program }
  expect(errorOf(vault.chain.send(anchorInstruction({ ...fields, settlement_signer: thief.key })))).toBe(
    'not_settlement_signer',
  )
  const unsigned = anchorInstruction({ ...fields, settlement_signer: vault.signer.key })
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('a zero nonce, another generation and an unauthorized restore are refused', () => {
  const vault = new OpenVault()
  expect(errorOf(open(vault, { boot_nonce: new Uint8Array(16) }))).toBe('invalid_data')
  expect(errorOf(open(vault, { generation: 1 }))).toBe('wrong_generation')
  expect(errorOf(open(vault, { restore: true, generation: 1 }))).toBe('restore_not_authorized')
})

test('an anchor belongs to the current epoch and moves the journal forward only', () => {
  const vault = new OpenVault()
  expect(errorOf(anchor(vault, 0, 8, 'eight'))).toBe('stale_epoch')
  landed(open(vault))
  landed(anchor(vault, 1, 8, 'eight'))
  expect(vault.chain.config()).toMatchObject({ journal_seq: 8, journal_head: bytes32('eight') })
  landed(anchor(vault, 1, 8, 'eight'))
  expect(errorOf(anchor(vault, 1, 7, 'seven'))).toBe('journal_regressed')
  expect(errorOf(anchor(vault, 1, 8, 'other'))).toBe('journal_conflict')
  expect(errorOf(anchor(vault, 2, 9, 'nine'))).toBe('stale_epoch')
})

test('an effective restore raises the generation once and lets the journal start anew', () => {
  const vault = new OpenVault()
  landed(open(vault))
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  const restored = {
    epoch: 2,
    restore: true,
    generation: 1,
    journal_seq: 0,
    journal_head: new Uint8Array(32),
  }
  expect(errorOf(open(vault, restored))).toBe('restore_not_authorized')
  vault.chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S / 4)
  landed(open(vault, restored))
  expect(vault.chain.config()).toMatchObject({ generation: 1, epoch: 2, journal_seq: 0 })
  expect(vault.chain.config().pending_restore_at_s).toBeUndefined()
  expect(errorOf(open(vault, { ...restored, epoch: 3, generation: 2 }))).toBe('restore_not_authorized')
  landed(open(vault, { ...restored, epoch: 3, restore: false }))
})
