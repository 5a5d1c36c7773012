/** An epoch fences every earlier instance, and the journal position on chain never goes back without a restore. */

import { expect, test } from 'bun:test'
import { venueId } from '../../protocol/bodies/statements'
import { authorizeRestoreInstruction, pauseInstruction } from '../../protocol/vault/admin'
import { anchorInstruction, type OpeningFields } from '../../protocol/vault/epochs'
import {
  bytes32,
  EXIT_DELAY_S,
  element,
  elements,
  errorOf,
  GENESIS_HASH,
  landed,
  OpenVault,
  outputsOf,
  runningVault,
} from '../kit/vault/open_vault'
import { COMPOSE_HASH } from '../kit/vault/quoting_machine'
import { type Failed, type Landed, testKey } from '../kit/vault/vault_chain'

const FIRST = {
  epoch: 1,
  boot_nonce: bytes32('nonce').slice(0, 16),
  compose_hash: COMPOSE_HASH,
  journal_seq: 7,
  journal_head: bytes32('seven'),
  restore: false,
  generation: 0,
}

const open = (vault: OpenVault, fields: Partial<OpeningFields> = {}): Landed | Failed =>
  vault.openEpoch({ ...FIRST, ...fields })

test('the first epoch stores nonce, compose hash and journal position, and says so in an event', () => {
  const vault = new OpenVault()
  const { events } = landed(open(vault))
  const { restore, ...stored } = FIRST
  expect(events[0]).toEqual({ kind: 'epoch_opened', ...stored, restored: restore })
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
  vault.settle({ journal_seq: 9, journal_head: bytes32('nine') })
  expect(errorOf(open(vault, { epoch: 2 }))).toBe('journal_regressed')
  const fork = { epoch: 2, journal_seq: 9, journal_head: bytes32('other') }
  expect(errorOf(open(vault, fork))).toBe('journal_conflict')
  landed(open(vault, { ...fork, journal_head: bytes32('nine') }))
})

test('a longer copy of the disk opens no epoch over a position that another instance stored meanwhile', () => {
  const vault = new OpenVault()
  landed(open(vault))
  const withheld = vault.opening({ epoch: 2, journal_seq: 12, journal_head: bytes32('copy') })
  const { program, signer } = vault
  const anchored = { epoch: 1, journal_seq: 9, journal_head: bytes32('nine') }
  const limits = { not_after_slot: 9_999, not_after_s: 1_900_000_000 }
  landed(
    vault.chain.send(anchorInstruction({ ...anchored, ...limits, program, settlement_signer: signer.key })),
  )
  expect(errorOf(vault.chain.send(withheld))).toBe('position_outdated')
  landed(open(vault, { epoch: 2, journal_seq: 12, expected_head: bytes32('nine') }))
})

test('only the key that is quoted opens an epoch', () => {
  const vault = new OpenVault()
  const thief = vault.chain.fund(testKey('thief'))
  const forged = vault.opening(FIRST)
  forged[1].accounts[0]!.address = thief.key
  expect(errorOf(vault.chain.send(forged))).toBe('wrong_report_data')
  const unsigned = vault.opening(FIRST)
  unsigned[1].accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('a zero nonce, another generation and an unauthorized restore are refused', () => {
  const vault = new OpenVault()
  expect(errorOf(open(vault, { boot_nonce: new Uint8Array(16) }))).toBe('invalid_data')
  const odd = vault.opening(FIRST)
  // Behind the quote's signed part, its auth data, epoch, nonce, compose hash and journal.
  odd[1].data[613 + 632 + 33 + 128] = 2
  expect(errorOf(vault.chain.send(odd))).toBe('invalid_data')
  expect(errorOf(open(vault, { generation: 1 }))).toBe('wrong_generation')
  expect(errorOf(open(vault, { restore: true, generation: 1 }))).toBe('restore_not_authorized')
})

test('an effective restore raises the generation once and lets the journal start again', () => {
  const vault = new OpenVault()
  landed(open(vault))
  const announced = authorizeRestoreInstruction({
    program: vault.program,
    admin: vault.admin.key,
    action: 'announce',
  })
  const anchored = { epoch: 1, journal_seq: 9, journal_head: bytes32('nine') }
  const commit = { ...anchored, not_after_slot: 9_999, not_after_s: 1_900_000_000 }
  const { program, signer } = vault
  landed(vault.chain.send(anchorInstruction({ ...commit, program, settlement_signer: signer.key })))
  const before = vault.chain.config()
  expect(before).toMatchObject({ commit_seq: 9, commit_head: bytes32('nine') })
  landed(vault.chain.send(announced))
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
  const config = vault.chain.config()
  expect(config).toMatchObject({ generation: 1, epoch: 2, journal_seq: 0 })
  expect(config).toMatchObject({ commit_seq: 0, commit_head: new Uint8Array(32) })
  const parts = { genesis_hash: GENESIS_HASH, program_id: program, config_account: vault.chain.vault.config }
  expect(before.venue).toEqual(venueId({ ...parts, generation: 0 }))
  expect(config.venue).toEqual(venueId({ ...parts, generation: 1 }))
  expect(vault.chain.config().pending_restore_at_s).toBe(0)
  expect(errorOf(open(vault, { ...restored, epoch: 3, generation: 2 }))).toBe('restore_not_authorized')
  landed(open(vault, { ...restored, epoch: 3, restore: false }))
})

test('an announced restore is void once a newer position shows that the journal is in use', () => {
  const vault = runningVault()
  const { program, signer, admin, chain } = vault
  const announce = () => {
    landed(chain.send(authorizeRestoreInstruction({ program, admin: admin.key, action: 'announce' })))
    expect(chain.config().pending_restore_at_s).toBeGreaterThan(0)
  }
  const anchored = (journal_seq: number) => {
    const position = { epoch: chain.config().epoch, journal_seq, journal_head: bytes32(`${journal_seq}`) }
    const limits = { not_after_slot: 0, not_after_s: 0 }
    landed(chain.send(anchorInstruction({ ...position, ...limits, program, settlement_signer: signer.key })))
    return chain.config().pending_restore_at_s
  }
  const { journal_seq } = chain.config()
  announce()
  expect(anchored(journal_seq + 9)).toBe(0)
  announce()
  // An older position says nothing about the journal of now.
  expect(anchored(journal_seq + 5)).toBeGreaterThan(0)
  vault.settle({ nullifiers: elements('n', 1) })
  expect(chain.config().pending_restore_at_s).toBe(0)
  announce()
  landed(vault.openEpoch())
  expect(chain.config().pending_restore_at_s).toBe(0)
})

test('an opening knows the last batch and the spent log', () => {
  const vault = runningVault()
  vault.settle({ nullifiers: elements('n', 1) })
  expect(errorOf(vault.openEpoch({ last_batch: 0 }))).toBe('batch_out_of_sequence')
  expect(errorOf(vault.openEpoch({ last_batch: 2 }))).toBe('batch_out_of_sequence')
  expect(errorOf(vault.openEpoch({ spent_root: bytes32('root') }))).toBe('spent_root_mismatch')
  landed(vault.openEpoch())
})

test('an opening cites a known state that is not older than the last batch, also while deposits land', () => {
  const vault = runningVault()
  const cite = (state: { leaf_count: number; root: Uint8Array }): string => {
    const cited = { cited_leaf_count: state.leaf_count, cited_root: state.root }
    return vault.chain.outcome(vault.opening(cited))
  }
  const older = vault.chain.tree()
  vault.settle({ outputs: outputsOf(elements('c', 2)) })
  const settled = vault.chain.tree()
  expect(cite(settled)).toBe('landed')
  expect(cite({ ...settled, root: bytes32('root') })).toBe('unknown_state')
  expect(vault.chain.ring().states.some(({ leaf_count }) => leaf_count === older.leaf_count)).toBe(false)
  vault.chain.setTime(1_018, 1_800_000_000)
  vault.deposit(5_000n, element('after the batch'))
  vault.deposit(5_000n, element('and again'))
  expect(cite(settled)).toBe('landed')
  vault.chain.setTime(1_036, 1_800_000_000)
  vault.settle({ outputs: outputsOf(elements('d', 1)) })
  expect(cite(settled)).toBe('unknown_state')
})

test('an opening is larger than any transaction but a v1 one', () => {
  const vault = new OpenVault()
  const [verify, good] = vault.opening()
  expect(good.data.length).toBeGreaterThan(1_232)
  expect(errorOf(vault.chain.send([verify, { ...good, data: good.data.slice(0, 1_400) }]))).toBe(
    'invalid_data',
  )
})

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
