/** Owns the stable sorting of handles by whole-number keys: by insertion when they are few, else digit by digit. */

/** Up to this many are sorted by insertion. */
const INSERTION_MAX = 32
const DIGIT_BITS = 6
const DIGIT_MASK = (1 << DIGIT_BITS) - 1

const digit_ends = new Int32Array(DIGIT_MASK + 2)
let spare_handles = new Int32Array(256)
let spare_keys = new Float64Array(256)

/**
 * Sorts `handles[from..from + count)` and `keys[0..count)` alike by ascending key. Keys are whole numbers from 0
 * to 2^53-1.
 */
export function sortByKey(handles: Int32Array, from: number, keys: Float64Array, count: number): void {
  if (count > INSERTION_MAX) sortByDigits(handles, from, keys, count)
  else sortByInsertion(handles, from, keys, count)
}

function sortByInsertion(handles: Int32Array, from: number, keys: Float64Array, count: number): void {
  for (let at = 1; at < count; at++) {
    const key = keys[at]!
    const handle = handles[from + at]!
    let place = at
    for (; place > 0 && keys[place - 1]! > key; place--) {
      keys[place] = keys[place - 1]!
      handles[from + place] = handles[from + place - 1]!
    }
    keys[place] = key
    handles[from + place] = handle
  }
}

function sortByDigits(handles: Int32Array, from: number, keys: Float64Array, count: number): void {
  if (spare_keys.length < count) {
    spare_handles = new Int32Array(2 * count)
    spare_keys = new Float64Array(2 * count)
  }
  let largest = 0
  for (let at = 0; at < count; at++) if (keys[at]! > largest) largest = keys[at]!
  // A power of two scales exactly, and `|` keeps the low bits of any whole part.
  for (let scale = 1; largest * scale >= 1; scale /= 1 << DIGIT_BITS) {
    digit_ends.fill(0)
    for (let at = 0; at < count; at++) digit_ends[((keys[at]! * scale) & DIGIT_MASK) + 1]!++
    for (let digit = 1; digit <= DIGIT_MASK; digit++) digit_ends[digit]! += digit_ends[digit - 1]!
    for (let at = 0; at < count; at++) {
      const key = keys[at]!
      const place = digit_ends[(key * scale) & DIGIT_MASK]!++
      spare_keys[place] = key
      spare_handles[place] = handles[from + at]!
    }
    for (let at = 0; at < count; at++) {
      keys[at] = spare_keys[at]!
      handles[from + at] = spare_handles[at]!
    }
  }
}
