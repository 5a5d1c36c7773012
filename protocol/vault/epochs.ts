/** Builds and decodes the instructions of a running instance: `open_epoch` (3) and `anchor` (5). */
import { vaultAddresses } from './addresses'
import { INSTRUCTION, listAccounts, type VaultInstruction } from './instruction'
import { LayoutReader, LayoutWriter, readLayout } from './layout'

// `open_epoch`: fences every earlier instance of the venue.
// Data, 106 bytes: 0 discriminator · 1 epoch u64 (the new one) · 9 boot_nonce (16, not zero) · 25 compose_hash (32) ·
// 57 journal_seq u64 · 65 journal_head (32) · 97 restore u8 (0, or 1 to consume an effective `authorize_restore`) ·
// 98 generation u64 (the one after this instruction).
// Without restore the journal position may not precede the one on chain, and an equal seq must have an equal head.

const OPEN_EPOCH_BYTES = 106

const OPEN_EPOCH_ACCOUNTS = [
  { name: 'settlement_signer', signer: true, writable: false },
  { name: 'config', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
] as const

export type OpenEpochFields = {
  /** The epoch after this instruction: the config's plus one. */
  epoch: number
  boot_nonce: Uint8Array
  compose_hash: Uint8Array
  journal_seq: number
  journal_head: Uint8Array
  /** True raises the generation and accepts any journal position. */
  restore: boolean
  /** The config's generation, plus one with `restore`. */
  generation: number
}

export function openEpochInstruction(
  fields: OpenEpochFields & { program: Uint8Array; settlement_signer: Uint8Array },
): VaultInstruction {
  const data = new LayoutWriter(OPEN_EPOCH_BYTES)
    .u8(INSTRUCTION.open_epoch)
    .u64(fields.epoch)
    .bytes(fields.boot_nonce, 16)
    .bytes(fields.compose_hash, 32)
    .u64(fields.journal_seq)
    .bytes(fields.journal_head, 32)
    .u8(fields.restore ? 1 : 0)
    .u64(fields.generation)
    .finish()
  const accounts = listAccounts(OPEN_EPOCH_ACCOUNTS, {
    ...vaultAddresses(fields.program),
    settlement_signer: fields.settlement_signer,
  })
  return { program: fields.program, accounts, data }
}

/** Undefined when the data is not exactly an `open_epoch`. */
export function decodeOpenEpoch(data: Uint8Array): OpenEpochFields | undefined {
  if (data.length !== OPEN_EPOCH_BYTES || data[0] !== INSTRUCTION.open_epoch) return undefined
  const reader = new LayoutReader(data, 1)
  return readLayout(() => ({
    epoch: reader.count(),
    boot_nonce: reader.bytes(16),
    compose_hash: reader.bytes(32),
    journal_seq: reader.count(),
    journal_head: reader.bytes(32),
    restore: reader.u8() === 1,
    generation: reader.count(),
  }))
}

// `anchor`: stores the journal position while nothing settles.
// Data, 49 bytes: 0 discriminator · 1 epoch u64 · 9 journal_seq u64 · 17 journal_head (32).

const ANCHOR_BYTES = 49

const ANCHOR_ACCOUNTS = [
  { name: 'settlement_signer', signer: true, writable: false },
  { name: 'config', signer: false, writable: true },
] as const

type AnchorFields = { epoch: number; journal_seq: number; journal_head: Uint8Array }

export function anchorInstruction(
  fields: AnchorFields & { program: Uint8Array; settlement_signer: Uint8Array },
): VaultInstruction {
  const data = new LayoutWriter(ANCHOR_BYTES)
    .u8(INSTRUCTION.anchor)
    .u64(fields.epoch)
    .u64(fields.journal_seq)
    .bytes(fields.journal_head, 32)
    .finish()
  const accounts = listAccounts(ANCHOR_ACCOUNTS, {
    settlement_signer: fields.settlement_signer,
    config: vaultAddresses(fields.program).config,
  })
  return { program: fields.program, accounts, data }
}

/** Undefined when the data is not exactly an `anchor`. */
export function decodeAnchor(data: Uint8Array): AnchorFields | undefined {
  if (data.length !== ANCHOR_BYTES || data[0] !== INSTRUCTION.anchor) return undefined
  const reader = new LayoutReader(data, 1)
  return readLayout(() => ({
    epoch: reader.count(),
    journal_seq: reader.count(),
    journal_head: reader.bytes(32),
  }))
}
