/**
 * Owns `escape` (9): in a frozen vault a note's owner takes its tokens with public data alone.
 *
 * Data, 2,170 bytes: 0 discriminator · 1 opening (49, note_proof.ts) · 50 low_value (32) · 82 low_next (32) ·
 * 114 low_index u64 · 122 inclusion path under the final note root (1,024) · 1,146 path of the low leaf under the
 * final spent root (1,024). The low leaf has low_value < nullifier < low_next, or low_next 0.
 */
import { listAccounts } from './account_list'
import {
  escapeRecordAddress,
  exitRequestAddress,
  mintRecordAddress,
  vaultAddresses,
  vaultTokenAddress,
} from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'
import { type NoteOpening, OPENING_BYTES, PATH_BYTES, writeOpening, writePath } from './note_proof'
import { SYSTEM_PROGRAM } from './programs'

export const ESCAPE_BYTES = 1 + OPENING_BYTES + 72 + 2 * PATH_BYTES

export const ESCAPE_ACCOUNTS = [
  /** The trading key that owns the note. */
  { name: 'owner', signer: true, writable: false },
  { name: 'payer', signer: true, writable: true },
  { name: 'config', signer: false, writable: false },
  { name: 'tree', signer: false, writable: false },
  { name: 'mint_record', signer: false, writable: true },
  { name: 'mint', signer: false, writable: false },
  { name: 'vault_token', signer: false, writable: true },
  { name: 'destination', signer: false, writable: true },
  { name: 'token_program', signer: false, writable: false },
  { name: 'escape_record', signer: false, writable: true },
  /** Closed, and its bond returned, when the note has one open. */
  { name: 'exit_request', signer: false, writable: true },
  { name: 'bond_payer', signer: false, writable: true },
  { name: 'system_program', signer: false, writable: false },
  { name: 'program', signer: false, writable: false },
] as const

export type EscapeFields = {
  program: Uint8Array
  owner: Uint8Array
  /** Pays the rent of the escape record. */
  payer: Uint8Array
  mint: Uint8Array
  token_program: Uint8Array
  destination: Uint8Array
  opening: NoteOpening
  nullifier: Uint8Array
  low_value: Uint8Array
  low_next: Uint8Array
  low_index: number
  path: readonly Uint8Array[]
  low_path: readonly Uint8Array[]
  /** Who paid the bond of the note's open exit request; omit when it has none. */
  bond_payer?: Uint8Array
}

function escapeData(fields: EscapeFields): Uint8Array {
  const writer = new LayoutWriter(ESCAPE_BYTES).u8(INSTRUCTION.escape)
  writeOpening(writer, fields.opening)
    .bytes(fields.low_value, 32)
    .bytes(fields.low_next, 32)
    .u64(fields.low_index)
  return writePath(writePath(writer, fields.path), fields.low_path).finish()
}

export function escapeInstruction(fields: EscapeFields): VaultInstruction {
  const { program, mint, nullifier } = fields
  const accounts = listAccounts(ESCAPE_ACCOUNTS, {
    ...vaultAddresses(program),
    owner: fields.owner,
    payer: fields.payer,
    mint_record: mintRecordAddress(program, mint),
    mint,
    vault_token: vaultTokenAddress(program, mint),
    destination: fields.destination,
    token_program: fields.token_program,
    escape_record: escapeRecordAddress(program, nullifier),
    exit_request: exitRequestAddress(program, nullifier),
    bond_payer: fields.bond_payer ?? fields.payer,
    system_program: SYSTEM_PROGRAM,
  })
  return { program, accounts, data: escapeData(fields) }
}
