/** Gives the same short text back for the same bytes: journals repeat account names and symbols in every record. */

const decoder = new TextDecoder('utf-8', { fatal: true })
const BYTES_MAX = 48
/** A newer text takes the place of one with the same hash, so memory is bounded. */
const PLACES = 1024

const seen_bytes: (Uint8Array | undefined)[] = new Array(PLACES).fill(undefined)
const seen_texts: string[] = new Array(PLACES).fill('')

/** @throws TypeError unless the bytes are UTF-8. */
export function textOf(bytes: Uint8Array, from: number, to: number): string {
  if (to - from > BYTES_MAX) return decoder.decode(bytes.subarray(from, to))
  let hash = to - from
  for (let at = from; at < to; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
  const place = (hash ^ (hash >>> 15)) & (PLACES - 1)
  const seen = seen_bytes[place]
  if (seen !== undefined && equals(seen, bytes, from, to)) return seen_texts[place]!
  const own = bytes.slice(from, to)
  const text = decoder.decode(own)
  seen_bytes[place] = own
  seen_texts[place] = text
  return text
}

function equals(seen: Uint8Array, bytes: Uint8Array, from: number, to: number): boolean {
  if (seen.length !== to - from) return false
  for (let at = 0; at < seen.length; at++) if (seen[at] !== bytes[from + at]) return false
  return true
}
