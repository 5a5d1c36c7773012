/**
 * Owns `request_exit` (6): a note's owner demands that the venue pays it out before the deadline.
 *
 * Data, 1,178 bytes: 0 discriminator · 1 opening (49, note_proof.ts) · 50 cited leaf count u64 · 58 cited root (32) ·
 * 90 destination (32) · 122 refund_inner (32) · 154 inclusion path under the cited root (1,024).
 */
import { listAccounts } from './account_list'
import { exitRequestAddress, mintRecordAddress, vaultAddresses } from './addresses'
import { INSTRUCTION } from './discriminators'
import type { VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'
import { type NoteOpening, OPENING_BYTES, PATH_BYTES, writeOpening, writePath } from './note_proof'
import { SYSTEM_PROGRAM } from './programs'

export const REQUEST_EXIT_BYTES = 1 + OPENING_BYTES + 40 + 64 + PATH_BYTES

export const REQUEST_EXIT_ACCOUNTS = [
  /** The trading key that owns the note. */
  { name: 'owner', signer: true, writable: false },
  { name: 'payer', signer: true, writable: true },
  { name: 'config', signer: false, writable: false },
  { name: 'tree', signer: false, writable: false },
  { name: 'ring', signer: false, writable: false },
  { name: 'mint_record', signer: false, writable: false },
  { name: 'exit_request', signer: false, writable: true },
  { name: 'system_program', signer: false, writable: false },
  { name: 'program', signer: false, writable: false },
] as const

export type RequestExitFields = {
  program: Uint8Array
  owner: Uint8Array
  /** Pays rent and the bond of 0.02 SOL, and gets both back. */
  payer: Uint8Array
  mint: Uint8Array
  opening: NoteOpening
  nullifier: Uint8Array
  cited_leaf_count: number
  cited_root: Uint8Array
  /** Token account that receives the note's whole amount. */
  destination: Uint8Array
  /** Inner hash of the note that comes back when the destination is unusable. */
  refund_inner: Uint8Array
  path: readonly Uint8Array[]
}

export function requestExitInstruction(fields: RequestExitFields): VaultInstruction {
  const { program } = fields
  const writer = new LayoutWriter(REQUEST_EXIT_BYTES).u8(INSTRUCTION.request_exit)
  writeOpening(writer, fields.opening)
    .u64(fields.cited_leaf_count)
    .bytes(fields.cited_root, 32)
    .bytes(fields.destination, 32)
    .bytes(fields.refund_inner, 32)
  const data = writePath(writer, fields.path).finish()
  const accounts = listAccounts(REQUEST_EXIT_ACCOUNTS, {
    ...vaultAddresses(program),
    owner: fields.owner,
    payer: fields.payer,
    mint_record: mintRecordAddress(program, fields.mint),
    exit_request: exitRequestAddress(program, fields.nullifier),
    system_program: SYSTEM_PROGRAM,
  })
  return { program, accounts, data }
}
