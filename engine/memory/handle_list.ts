/** Links rows of memory into lists in insertion order; removal takes constant time. */
import type { RowMemory } from './rows'

/** The ends of one list; 0 = empty. */
export type HandleList = { first: number; last: number }

export function newList(): HandleList {
  return { first: 0, last: 0 }
}

/**
 * The links of one kind of list. A row is in at most one list of a kind; it stores the handles of its neighbours in the
 * 8 bytes at `next_at`.
 */
export class HandleLinks {
  private readonly before_at: number

  constructor(
    private readonly rows: RowMemory,
    private readonly next_at: number,
  ) {
    this.before_at = next_at + 4
  }

  append(list: HandleList, handle: number): void {
    this.set(handle, this.next_at, 0)
    this.set(handle, this.before_at, list.last)
    if (list.last === 0) list.first = handle
    else this.set(list.last, this.next_at, handle)
    list.last = handle
  }

  remove(list: HandleList, handle: number): void {
    const next = this.next(handle)
    const before = this.get(handle, this.before_at)
    if (next === 0) list.last = before
    else this.set(next, this.before_at, before)
    if (before === 0) list.first = next
    else this.set(before, this.next_at, next)
  }

  /** The next row of the list; 0 = none. */
  next(handle: number): number {
    return this.get(handle, this.next_at)
  }

  private get(handle: number, at: number): number {
    return this.rows.chunkOf(handle).view.getUint32(this.rows.placeOf(handle) + at, true)
  }

  private set(handle: number, at: number, value: number): void {
    this.rows.chunkOf(handle).view.setUint32(this.rows.placeOf(handle) + at, value, true)
  }
}
