/** Receipts of recent commands, so that a resend after a lost reply gets the original proof too. */
import type { Receipt } from '../../protocol/wire'
import { LIMITS } from '../limits'
import { copyBytes } from '../state/copy_bytes'
import { IdTable } from '../state/id_table'
import { RowMemory } from '../state/row_memory'
import { type ReceiptGroup, receiptOf } from './receipts'

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
