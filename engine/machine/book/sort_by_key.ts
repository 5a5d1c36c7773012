/** Sorts handles stably by integer keys: insertion sort for few, radix sort for many. */

/** Up to this many handles are sorted by insertion. */
const INSERTION_MAX = 32
const DIGIT_BITS = 6
const DIGIT_MASK = (1 << DIGIT_BITS) - 1

const places = new Int32Array(DIGIT_MASK + 2)
let spare_handles = new Int32Array(256)
let spare_keys = new Float64Array(256)

/**
 * Sorts `handles[from..from + count)` and `keys[from..from + count)` together by ascending key. Keys are integers from 0 to
 * 2^53-1.
 */
export function sortByKey(handles: Int32Array, keys: Float64Array, from: number, count: number): void {
  if (count > INSERTION_MAX) sortByDigits(handles, keys, from, count)
  else sortByInsertion(handles, keys, from, count)
}

function sortByInsertion(handles: Int32Array, keys: Float64Array, from: number, count: number): void {
  for (let at = from + 1; at < from + count; at++) {
    const key = keys[at]!
    const handle = handles[at]!
    let place = at
    for (; place > from && keys[place - 1]! > key; place--) {
      keys[place] = keys[place - 1]!
      handles[place] = handles[place - 1]!
    }
    keys[place] = key
    handles[place] = handle
  }
}

/** Two digits at a time: to the spare arrays and back. */
function sortByDigits(handles: Int32Array, keys: Float64Array, from: number, count: number): void {
  const to = from + count
  if (spare_keys.length < to) {
    spare_handles = new Int32Array(2 * to)
    spare_keys = new Float64Array(2 * to)
  }
  let largest = 0
  for (let at = from; at < to; at++) if (keys[at]! > largest) largest = keys[at]!
  // Scaling by a power of two is exact, and `&` takes the low bits of the integer part.
  for (let scale = 1; largest * scale >= 1; scale /= 1 << (2 * DIGIT_BITS)) {
    moveByDigit(handles, keys, from, to, scale, spare_handles, spare_keys)
    moveByDigit(spare_handles, spare_keys, from, to, scale / (1 << DIGIT_BITS), handles, keys)
  }
}

/** Counting sort by one digit of the key, into the same range of other arrays. */
function moveByDigit(
  handles: Int32Array,
  keys: Float64Array,
  from: number,
  to: number,
  scale: number,
  handles_to: Int32Array,
  keys_to: Float64Array,
): void {
  for (let digit = 0; digit <= DIGIT_MASK; digit++) places[digit] = 0
  for (let at = from; at < to; at++) places[((keys[at]! * scale) & DIGIT_MASK) + 1]!++
  places[0] = from
  for (let digit = 1; digit <= DIGIT_MASK; digit++) places[digit]! += places[digit - 1]!
  for (let at = from; at < to; at++) {
    const key = keys[at]!
    const place = places[(key * scale) & DIGIT_MASK]!++
    keys_to[place] = key
    handles_to[place] = handles[at]!
  }
}
