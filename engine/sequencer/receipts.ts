/** Signs one receipt per group of records, and keeps recent ones for a resend after a lost reply. */
import { encodeReceipt, receiptLeaf } from '../../protocol/bodies/receipt'
import { concatBytes, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { Receipt } from '../../protocol/wire/trading'
import type { Appended } from '../journal/contract'
import { LIMITS } from '../limits'
import { IdTable } from '../memory/id_table'
import { copyBytes, RowMemory } from '../memory/rows'

// Signs one receipt per group of records and hands each client command its own proof (engine.md "Receipts").

export type ReceiptSigner = {
  venue: Uint8Array
  epoch: number
  /** Ed25519 by the statement key over the 128 receipt bytes. */
  sign: (body: Uint8Array) => Uint8Array
}

/** What the receipts of one group are made of, in little room: any of them can be made again. */
export type ReceiptGroup = {
  readonly common: Omit<Receipt, 'index' | 'path'>
  /** 32 bytes each, in order. */
  readonly leaves: Uint8Array
}

/** One receipt per entry of `signed`, in order; each entry is a canonical body with its signature. */
export function receiptsOf(
  signer: ReceiptSigner,
  appended: Appended,
  signed: readonly Uint8Array[],
): { group: ReceiptGroup; receipts: Receipt[] } | undefined {
  if (signed.length === 0) return undefined
  const leaves = signed.map(receiptLeaf)
  const { root, paths } = receiptTree(leaves)
  const { seq_last: seq, head } = appended
  const { venue, epoch } = signer
  const body = encodeReceipt({ venue, epoch: BigInt(epoch), seq: BigInt(seq), head, root })
  const signature = toHex(signer.sign(body))
  const common = { epoch, seq, head: toHex(head), root: toHex(root), signature }
  return {
    group: { common, leaves: concatBytes(...leaves) },
    receipts: paths.map((path, index) => ({ ...common, index, path })),
  }
}

/** The receipt of the group's entry `index`, made again. */
export function receiptOf({ common, leaves }: ReceiptGroup, index: number): Receipt {
  const each = Array.from({ length: leaves.length / 32 }, (_, at) => leaves.subarray(32 * at, 32 * at + 32))
  return { ...common, index, path: receiptTree(each).paths[index]! }
}

/**
 * Root and all audit paths, in hex, of an RFC 6962 tree at once: the paths of one leaf at a time would hash a group of n
 * commands n times. A node's text is made once and stands in the paths of all leaves across from it.
 */
export function receiptTree(leaves: readonly Uint8Array[]): { root: Uint8Array; paths: string[][] } {
  const paths: string[][] = leaves.map(() => [])
  const climb = (from: number, to: number): Uint8Array => {
    if (to - from === 1) return leaves[from]!
    let size = 1
    while (size * 2 < to - from) size *= 2
    const left = climb(from, from + size)
    const right = climb(from + size, to)
    const left_text = toHex(left)
    const right_text = toHex(right)
    for (let at = from; at < to; at++) paths[at]!.push(at < from + size ? right_text : left_text)
    return sha256(NODE, left, right)
  }
  return { root: climb(0, leaves.length), paths }
}

const NODE = Uint8Array.of(1)

// Receipts of recent commands, so that a resend after a lost reply gets the original proof too.

/** The row of a command: the id of what it made, the number of its group, its index there. */
const ID_BYTES = 16
const GROUP_AT = 16
const INDEX_AT = 24
const ROW_BYTES = 28
const CHUNK_GROUPS = 32

/**
 * Resends are rare and commands are not, so a receipt is made when it is asked for, and what is kept is flat: a map that
 * is written at each command would be walked whole by every collection of garbage.
 */
export class ReceiptCache {
  /** A ring, the oldest command first to go. */
  private readonly rows = new RowMemory(ROW_BYTES)
  /** By what the command made: an order, a withdrawal or a reshape. */
  private readonly table = new IdTable(this.rows)
  private taken = 0
  /** In chunks, as only the last of them is written. */
  private readonly chunks: ReceiptGroup[][] = []
  /** Number of the first group in the first chunk, and of the newest. */
  private first_group = 1
  private last_group = 0

  /** @param id 16 bytes */
  set(id: Uint8Array, group: ReceiptGroup, index: number): void {
    const handle = 1 + (this.taken % LIMITS.receipts_kept_max)
    if (this.taken >= LIMITS.receipts_kept_max) this.forget(handle)
    // A client chooses the ids of its orders and may meet that of a withdrawal: the newer command has it.
    const known = this.table.find(id)
    if (known !== undefined) this.table.remove(known)
    if (this.groupOf(this.last_group) !== group) this.keep(group)
    this.rows.reach(handle)
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    copyBytes(id, 0, bytes, at, ID_BYTES)
    view.setFloat64(at + GROUP_AT, this.last_group, true)
    view.setUint32(at + INDEX_AT, index, true)
    this.table.add(handle)
    this.taken += 1
  }

  /** @param id 16 bytes */
  get(id: Uint8Array): Receipt | undefined {
    const handle = this.table.find(id)
    if (handle === undefined) return undefined
    const { view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    const group = this.groupOf(view.getFloat64(at + GROUP_AT, true))!
    return receiptOf(group, view.getUint32(at + INDEX_AT, true))
  }

  /** The oldest command goes, and with it the groups before its own. */
  private forget(handle: number): void {
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    // A newer command may have taken its id over.
    if (this.table.find(bytes, at) === handle) this.table.remove(handle)
    const group = view.getFloat64(at + GROUP_AT, true)
    while (this.first_group + CHUNK_GROUPS <= group) {
      this.chunks.shift()
      this.first_group += CHUNK_GROUPS
    }
  }

  private keep(group: ReceiptGroup): void {
    this.last_group += 1
    const last = this.chunks.at(-1)
    if (last === undefined || last.length === CHUNK_GROUPS) this.chunks.push([group])
    else last.push(group)
  }

  private groupOf(number: number): ReceiptGroup | undefined {
    const at = number - this.first_group
    return this.chunks[Math.floor(at / CHUNK_GROUPS)]?.[at % CHUNK_GROUPS]
  }
}
