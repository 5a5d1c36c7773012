/** Shares short texts that repeat: a cache from bytes to text, and reference-counted texts. */

const decoder = new TextDecoder('utf-8', { fatal: true })
/** Longer texts are decoded without the cache. */
const BYTES_MAX = 48
/** Slots of the cache. A text replaces one with the same hash, so memory is bounded. */
const PLACES = 1024

const seen_bytes: (Uint8Array | undefined)[] = new Array(PLACES).fill(undefined)
const seen_texts: string[] = new Array(PLACES).fill('')

/**
 * Decodes UTF-8 and returns the same string for the same short bytes: journals repeat account names and symbols in every
 * record. @throws TypeError for bytes that are not UTF-8
 */
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

type Shared = { readonly text: string; rows: number }

/** Texts that many rows refer to by number, reference-counted: the sockets of orders. */
export class SharedTexts {
  private readonly numbers = new Map<string, number>()
  /** By number; 0 = none. */
  private readonly texts: (Shared | undefined)[] = [undefined]
  private readonly free: number[] = []

  get size(): number {
    return this.numbers.size
  }

  /** Adds a reference to a text and returns its number. */
  take(text: string): number {
    const known = this.numbers.get(text)
    if (known !== undefined) {
      this.texts[known]!.rows++
      return known
    }
    const number = this.free.pop() ?? this.texts.length
    this.texts[number] = { text, rows: 1 }
    this.numbers.set(text, number)
    return number
  }

  at(number: number): string {
    return this.texts[number]!.text
  }

  /** Drops one reference. */
  drop(number: number): void {
    const shared = this.texts[number]!
    if (--shared.rows > 0) return
    this.numbers.delete(shared.text)
    this.texts[number] = undefined
    this.free.push(number)
  }
}
