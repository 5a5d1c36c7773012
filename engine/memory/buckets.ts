/** Groups items by the slot at which they are due, so that finding the due ones scans no others. */

export function addToBucket<T>(buckets: Map<number, Set<T>>, slot: number, item: T): void {
  const bucket = buckets.get(slot)
  if (bucket === undefined) buckets.set(slot, new Set([item]))
  else bucket.add(item)
}

export function removeFromBucket<T>(buckets: Map<number, Set<T>>, slot: number, item: T): void {
  const bucket = buckets.get(slot)
  if (bucket === undefined) return
  bucket.delete(item)
  if (bucket.size === 0) buckets.delete(slot)
}

/**
 * The slots of buckets with `from <= slot <= to`, ascending. After a long jump of the chain this walks the buckets, which
 * are then fewer than the slots.
 */
export function dueSlots(buckets: ReadonlyMap<number, unknown>, from: number, to: number): number[] {
  const due: number[] = []
  if (to - from < buckets.size) {
    for (let slot = from; slot <= to; slot++) if (buckets.has(slot)) due.push(slot)
  } else {
    for (const slot of buckets.keys()) if (slot >= from && slot <= to) due.push(slot)
    due.sort((a, b) => a - b)
  }
  return due
}
