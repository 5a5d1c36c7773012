/** Whole numbers of 48 bits in rows: slots, seqs and batches. */

const HIGH = 0x1_0000_0000

export function readU48(view: DataView, at: number): number {
  return view.getUint32(at, true) + view.getUint16(at + 4, true) * HIGH
}

/** @throws RangeError beyond 48 bits: that many slots take millions of years */
export function writeU48(view: DataView, at: number, value: number): void {
  if (!(value >= 0 && value < 0x1_0000 * HIGH)) throw new RangeError('a slot, seq or batch beyond 48 bits')
  view.setUint32(at, value % HIGH, true)
  view.setUint16(at + 4, value / HIGH, true)
}
