/** An anchor moves the journal position forward only, and a commit lands before its time is over or never. */
import { expect, test } from 'bun:test'
import { pauseInstruction } from '../../protocol/vault/admin'
import { anchorInstruction } from '../../protocol/vault/epochs'
import { bytes32, errorOf, landed, OpenVault, runningVault } from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'

const [SLOT, NOW_S] = [1_000, 1_800_000_000]
const PLAIN = { not_after_slot: 0, not_after_s: 0 }
const COMMIT = { not_after_slot: SLOT, not_after_s: NOW_S }

const at = (seq: number, head = `head ${seq}`) => ({ journal_seq: seq, journal_head: bytes32(head) })

function anchor(vault: OpenVault, fields: Partial<Parameters<typeof anchorInstruction>[0]>): string {
  const { program, signer } = vault
  const all = { epoch: 1, ...at(1), ...PLAIN, ...fields, program, settlement_signer: signer.key }
  return errorOf(vault.chain.send(anchorInstruction(all)))
}

test('a newer position is stored, an older one ignored, and one position has one head', () => {
  const vault = runningVault(0n)
  expect(anchor(vault, at(8))).toBe('landed')
  expect(anchor(vault, at(7))).toBe('landed')
  expect(anchor(vault, at(8))).toBe('landed')
  expect(vault.chain.config()).toMatchObject({ ...at(8), commit_seq: 0 })
  expect(anchor(vault, at(8, 'other'))).toBe('journal_conflict')
})

test('an anchor belongs to the current epoch', () => {
  const vault = new OpenVault()
  // Before the first epoch no key is the settlement signer.
  expect(anchor(vault, { epoch: 0 })).toBe('not_settlement_signer')
  expect(anchor(vault, { epoch: 1 })).toBe('not_settlement_signer')
  landed(vault.openEpoch())
  expect(anchor(vault, { epoch: 0 })).toBe('stale_epoch')
  expect(anchor(vault, { epoch: 2 })).toBe('stale_epoch')
  expect(anchor(vault, { epoch: 1 })).toBe('landed')
})

test('only the settlement signer anchors', () => {
  const vault = runningVault(0n)
  const thief = vault.chain.fund(testKey('thief'))
  const { program, signer } = vault
  const fields = { epoch: 1, ...at(9), ...PLAIN, program }
  const forged = anchorInstruction({ ...fields, settlement_signer: thief.key })
  expect(errorOf(vault.chain.send(forged))).toBe('not_settlement_signer')
  const unsigned = anchorInstruction({ ...fields, settlement_signer: signer.key })
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('a commit is stored with its position until the earlier of its two limits', () => {
  const vault = runningVault(0n)
  expect(anchor(vault, { ...at(5), ...COMMIT })).toBe('landed')
  const commit = { commit_seq: 5, commit_head: bytes32('head 5') }
  expect(vault.chain.config()).toMatchObject({ ...at(5), ...commit })
  expect(anchor(vault, { ...at(6), ...COMMIT, not_after_slot: SLOT - 1 })).toBe('anchor_expired')
  expect(anchor(vault, { ...at(6), ...COMMIT, not_after_s: NOW_S - 1 })).toBe('anchor_expired')
  expect(vault.chain.config()).toMatchObject({ ...at(5), ...commit })
  expect(anchor(vault, { ...at(6), ...COMMIT })).toBe('landed')
  expect(vault.chain.config()).toMatchObject({ ...at(6), commit_seq: 6 })
})

test('an equal commit changes nothing, an older one and one of another head are refused', () => {
  const vault = runningVault(0n)
  expect(anchor(vault, { ...at(5), ...COMMIT })).toBe('landed')
  const before = vault.chain.config()
  expect(anchor(vault, { ...at(5), ...COMMIT })).toBe('landed')
  expect(vault.chain.config()).toEqual(before)
  expect(anchor(vault, { ...at(4), ...COMMIT })).toBe('commit_regressed')
  expect(anchor(vault, { ...at(5, 'other'), ...COMMIT })).toBe('journal_conflict')
})

test('a commit older than the position is stored, where another head was committed at its place it is refused', () => {
  const vault = runningVault(0n)
  expect(anchor(vault, { ...at(5), ...COMMIT })).toBe('landed')
  expect(anchor(vault, at(9))).toBe('landed')
  expect(anchor(vault, { ...at(5, 'other'), ...COMMIT })).toBe('journal_conflict')
  expect(anchor(vault, { ...at(7), ...COMMIT })).toBe('landed')
  expect(vault.chain.config()).toMatchObject({ ...at(9), commit_seq: 7, commit_head: bytes32('head 7') })
})

test('a commit has both limits', () => {
  const vault = runningVault(0n)
  expect(anchor(vault, { ...at(5), ...COMMIT, not_after_slot: 0 })).toBe('invalid_data')
  expect(anchor(vault, { ...at(5), ...COMMIT, not_after_s: 0 })).toBe('invalid_data')
})

test('a paused vault is anchored', () => {
  const vault = runningVault(0n)
  landed(vault.chain.send(pauseInstruction({ program: vault.program, admin: vault.admin.key })))
  expect(anchor(vault, at(2))).toBe('landed')
})
