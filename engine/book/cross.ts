/** Owns the auction: one price, its volume and who is filled (matching.md "Close of a batch", steps 2 to 6). */
import type { Book } from './book'

/** The rules and facts one auction is held under. Prices in ticks. */
export type CrossTerms = {
  /** The reference price; null only where an auditor's case has none. A venue skips the auction instead. */
  reference: number | null
  /** Half width of the collar around the reference; null = no collar (auditor's cases only). */
  collar_bps: number | null
  price_rule: 'std4' | 'ref'
  /** Volume rule `ref` may give up against the greatest, in bps. Unused by `std4`. */
  volume_tolerance_bps: number
  /** 32-byte batch seed that breaks the last ties. */
  seed: Uint8Array
  /** The bytes hashed for an order in a tie; its 16-byte order id when absent. */
  tieBytes?: (handle: number) => Uint8Array
}

/** Fills of one side in allocation order: `handles[i]` gets `lots[i]`. Independent of the order of arrival. */
export type SideFills = { handles: Int32Array; lots: Float64Array }

export type Cross = {
  /** Clearing price, or null when nothing executes. */
  price: number | null
  /** Lots bought = lots sold. */
  volume: number
  /** D - S at the price among the orders that stayed in; 0 without a price. */
  surplus: number
  /** The collar, inclusive, or null. */
  collar: { lo: number; hi: number } | null
  /** Orders cross, but only outside the collar: the collar edge the reference moves to (policy `last` only). Else null. */
  drift: number | null
  buys: SideFills
  sells: SideFills
  /** Conditional orders that sat this batch out, in the order they were dropped. They rest (ioc and fok excepted). */
  dropped: number[]
  /** ioc and fok orders not filled whole, by ascending order id: the caller cancels what remains after the fills. */
  remainders: number[]
}

/**
 * Holds one auction over the resting orders. Changes nothing: apply it with `book.reduce(handle, lots)` for each fill,
 * then `book.remove` for the remainders that are left. Expired orders must have been removed before.
 */
export declare function cross(book: Book, terms: CrossTerms): Cross
