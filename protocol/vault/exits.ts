/** Builds the instructions of exits without the venue: `request_exit` (6), `refuse_exit` (7), `freeze` (8), `escape` (9). */
import {
  escapeRecordAddress,
  exitRequestAddress,
  mintRecordAddress,
  SYSTEM_PROGRAM,
  vaultAddresses,
  vaultTokenAddress,
} from './addresses'
import { INSTRUCTION, listAccounts, type VaultInstruction } from './instruction'
import { LayoutWriter } from './layout'

/** Bytes of an opening: form u8 · amount u64 · blinding (32) · leaf_index u64. */
const OPENING_BYTES = 49
/** 32 siblings from the leaf upwards. */
const PATH_BYTES = 1_024

/** Opens a note in public; the note's owner signs the transaction. */
export type NoteOpening = {
  /** `deposit` for notes of the program (deposits and refunds), whose commitment covers the leaf index. */
  form: 'settlement' | 'deposit'
  /** Base units. */
  amount: bigint
  blinding: Uint8Array
  leaf_index: number
}

function writeOpening(writer: LayoutWriter, opening: NoteOpening): LayoutWriter {
  return writer
    .u8(opening.form === 'deposit' ? 1 : 0)
    .u64(opening.amount)
    .bytes(opening.blinding, 32)
    .u64(opening.leaf_index)
}

function writePath(writer: LayoutWriter, siblings: readonly Uint8Array[]): LayoutWriter {
  if (siblings.length !== 32) throw new RangeError('expected 32 siblings')
  for (const sibling of siblings) writer.bytes(sibling, 32)
  return writer
}

// `request_exit`: a note's owner demands that the venue pays it out before the deadline.
// Data, 1,178 bytes: 0 discriminator · 1 opening (49, `writeOpening`) · 50 cited leaf count u64 · 58 cited root (32) ·
// 90 destination (32) · 122 refund_inner (32) · 154 inclusion path under the cited root (1,024).

export const REQUEST_EXIT_BYTES = 1 + OPENING_BYTES + 40 + 64 + PATH_BYTES

const REQUEST_EXIT_ACCOUNTS = [
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
  /** Inner hash of the refund note, appended when the destination is unusable. */
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

// `refuse_exit`: anyone proves that a requested note is already spent and receives the bond.
// Data, 1,097 bytes: 0 discriminator · 1 cited spent root (32, the current or one of the last 32) · 33 next_value (32)
// of the spent leaf · 65 its leaf index u64 · 73 its path (1,024).

const REFUSE_EXIT_BYTES = 1 + 32 + 32 + 8 + PATH_BYTES

const REFUSE_EXIT_ACCOUNTS = [
  { name: 'refuser', signer: true, writable: true },
  { name: 'config', signer: false, writable: false },
  { name: 'ring', signer: false, writable: false },
  { name: 'exit_request', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
] as const

type RefuseExitFields = {
  program: Uint8Array
  refuser: Uint8Array
  nullifier: Uint8Array
  cited_spent_root: Uint8Array
  next_value: Uint8Array
  leaf_index: number
  path: readonly Uint8Array[]
}

export function refuseExitInstruction(fields: RefuseExitFields): VaultInstruction {
  const { program } = fields
  const writer = new LayoutWriter(REFUSE_EXIT_BYTES)
    .u8(INSTRUCTION.refuse_exit)
    .bytes(fields.cited_spent_root, 32)
    .bytes(fields.next_value, 32)
    .u64(fields.leaf_index)
  const data = writePath(writer, fields.path).finish()
  const accounts = listAccounts(REFUSE_EXIT_ACCOUNTS, {
    ...vaultAddresses(program),
    refuser: fields.refuser,
    exit_request: exitRequestAddress(program, fields.nullifier),
  })
  return { program, accounts, data }
}

// `freeze`: starts the final wind-down once an unserved, unrefused request is past its deadline. In a frozen vault it
// only closes a request and returns its bond.
// Data, 1 byte: the discriminator.

const FREEZE_ACCOUNTS = [
  { name: 'config', signer: false, writable: true },
  { name: 'exit_request', signer: false, writable: true },
  { name: 'bond_payer', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
] as const

type FreezeFields = {
  program: Uint8Array
  nullifier: Uint8Array
  /** Paid the request's bond and gets it back. */
  bond_payer: Uint8Array
}

export function freezeInstruction(fields: FreezeFields): VaultInstruction {
  const { program, nullifier, bond_payer } = fields
  const accounts = listAccounts(FREEZE_ACCOUNTS, {
    ...vaultAddresses(program),
    exit_request: exitRequestAddress(program, nullifier),
    bond_payer,
  })
  return { program, accounts, data: Uint8Array.of(INSTRUCTION.freeze) }
}

// `escape`: the owner of a note in a frozen vault withdraws its tokens with public data alone.
// Data, 2,170 bytes: 0 discriminator · 1 opening (49, `writeOpening`) · 50 low_value (32) · 82 low_next (32) ·
// 114 low_index u64 · 122 inclusion path under the final note root (1,024) · 1,146 path of the low leaf under the
// final spent root (1,024). The low leaf has low_value < nullifier < low_next, or low_next 0.

export const ESCAPE_BYTES = 1 + OPENING_BYTES + 72 + 2 * PATH_BYTES

const ESCAPE_ACCOUNTS = [
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
  /** Closed, with its bond returned, if the note has an open request. */
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
  /** Paid the bond of the note's open exit request; omit when there is none. */
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
