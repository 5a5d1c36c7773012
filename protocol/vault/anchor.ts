/**
 * Owns `anchor` (5): stores the journal position when nothing settles.
 *
 * Data, 49 bytes: 0 discriminator · 1 epoch u64 · 9 journal_seq u64 · 17 journal_head (32).
 */
import { listAccounts } from './account_list'
import { vaultAddresses } from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'
import { LayoutReader, LayoutWriter, readLayout } from './layout'

export const ANCHOR_BYTES = 49

export const ANCHOR_ACCOUNTS = [
  { name: 'settlement_signer', signer: true, writable: false },
  { name: 'config', signer: false, writable: true },
] as const

export type AnchorFields = { epoch: number; journal_seq: number; journal_head: Uint8Array }

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
