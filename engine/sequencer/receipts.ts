/** Builds the receipts of a group of records (engine.md "Receipts") and keeps recent ones for resends. */
import { concatBytes, copyBytes, toHex } from '../../protocol/bytes'
import { fixed, list, struct, uint, type ValueOf } from '../../protocol/codec'
import { receiptTree, treeLeaf } from '../../protocol/rfc6962_tree'
import type { Receipt } from '../../protocol/wire/trading'
import type { Appended } from '../journal/contract'
import { LIMITS } from '../limits'
import { type HashSeed, IdTable } from '../memory/id_table'
import { RowMemory } from '../memory/rows'

const GROUP = struct({
  epoch: uint,
  seq: uint,
  head: fixed(32),
  root: fixed(32),
  signature: fixed(64),
  leaves: list(fixed(32)),
})
/** The compact form of one group's receipts, from which any of them can be rebuilt. */
export type ReceiptGroup = ValueOf<typeof GROUP>

/** Leaves and paths of a group's commands; each entry is a canonical body with its signature. */
export function receiptTreeOf(signed: readonly Uint8Array[]) {
  const leaves = signed.map((one) => treeLeaf(one))
  return { ...receiptTree(leaves), leaves }
}

/** One receipt per command of the group, in order. */
export function receiptsOf(
  epoch: number,
  { seq_last: seq, head, signature }: Appended,
  { root, paths, leaves }: ReturnType<typeof receiptTreeOf>,
): { group: ReceiptGroup; receipts: Receipt[] } {
  const group = { epoch, seq, head, root, signature, leaves }
  const common = commonOf(group)
  return { group, receipts: paths.map((path, index) => ({ ...common, index, path })) }
}

function commonOf({ epoch, seq, head, root, signature }: ReceiptGroup): Omit<Receipt, 'index' | 'path'> {
  return { epoch, seq, head: toHex(head), root: toHex(root), signature: toHex(signature) }
}

/** Rebuilds the receipt of the group's entry `index`. */
export function receiptOf(group: ReceiptGroup, index: number): Receipt {
  return { ...commonOf(group), index, path: receiptTree(group.leaves).paths[index]! }
}

/** Row of a command: id of the resource it created, number of its group, index in the group. */
const ID_BYTES = 16
const GROUP_AT = 16
const INDEX_AT = 24
const ROW_BYTES = 28
const CHUNK_GROUPS = 32
/** Encoded groups in a row, and where each ends. */
type GroupChunk = { bytes: Uint8Array; ends: number[] }

/**
 * Receipts of recent commands, so that a resend after a lost reply returns the original proof. Resends are rare, so a
 * receipt is rebuilt on request. Rows and groups are flat memory: every garbage collection would traverse maps of objects.
 */
export class ReceiptCache {
  /** A ring: the oldest command is overwritten first. */
  private readonly rows = new RowMemory(ROW_BYTES)
  /** By the id of the created order, withdrawal or reshape. */
  private readonly table: IdTable
  private taken = 0
  /** In chunks of CHUNK_GROUPS, so that old groups are dropped without moving the others. */
  private readonly chunks: GroupChunk[] = []
  /** Encoded groups of the next chunk. */
  private filling: Uint8Array[] = []
  /** Number of the first group in the first chunk, and of the newest, which is `newest`. */
  private first_group = 1
  private last_group = 0
  private newest: ReceiptGroup | undefined

  constructor(seed: HashSeed) {
    this.table = new IdTable(this.rows, seed)
  }

  /** @param id 16 bytes */
  set(id: Uint8Array, group: ReceiptGroup, index: number): void {
    const handle = 1 + (this.taken % LIMITS.receipts_kept_max)
    if (this.taken >= LIMITS.receipts_kept_max) this.forget(handle)
    if (this.newest !== group) this.keep(group)
    this.rows.reach(handle)
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    copyBytes(id, 0, bytes, at, ID_BYTES)
    view.setFloat64(at + GROUP_AT, this.last_group, true)
    view.setUint32(at + INDEX_AT, index, true)
    // A client chooses its order ids and may collide with the id of a withdrawal: the newer command wins.
    this.table.put(handle)
    this.taken += 1
  }

  /** @param id 16 bytes */
  get(id: Uint8Array): Receipt | undefined {
    const handle = this.table.find(id)
    if (handle === undefined) return undefined
    const { view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    const group = this.groupOf(view.getFloat64(at + GROUP_AT, true))
    return receiptOf(group, view.getUint32(at + INDEX_AT, true))
  }

  /** Evicts the oldest command and the chunks of groups before its group. */
  private forget(handle: number): void {
    const { bytes, view } = this.rows.chunkOf(handle)
    const at = this.rows.placeOf(handle)
    // A newer command may have replaced it in the table.
    if (this.table.find(bytes, at) === handle) this.table.remove(handle)
    const group = view.getFloat64(at + GROUP_AT, true)
    while (this.first_group + CHUNK_GROUPS <= group) {
      this.chunks.shift()
      this.first_group += CHUNK_GROUPS
    }
  }

  private keep(group: ReceiptGroup): void {
    this.last_group += 1
    this.newest = group
    if (this.filling.push(GROUP.encode(group)) < CHUNK_GROUPS) return
    let end = 0
    const ends = this.filling.map(({ length }) => (end += length))
    this.chunks.push({ bytes: concatBytes(...this.filling), ends })
    this.filling = []
  }

  private groupOf(number: number): ReceiptGroup {
    const at = number - this.first_group
    const chunk = this.chunks[Math.floor(at / CHUNK_GROUPS)]
    if (chunk === undefined) return GROUP.decode(this.filling[at % CHUNK_GROUPS]!)
    const { bytes, ends } = chunk
    return GROUP.decode(bytes.subarray(ends[(at % CHUNK_GROUPS) - 1] ?? 0, ends[at % CHUNK_GROUPS]))
  }
}
