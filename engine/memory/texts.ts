/** Short texts that repeat: interned by their bytes, or kept once and counted. */

// Gives the same short text back for the same bytes: journals repeat account names and symbols in every record.

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

// Texts that many rows repeat, kept once and counted: the sockets orders came in on.

type Shared = { readonly text: string; rows: number }

export class SharedTexts {
  private readonly numbers = new Map<string, number>()
  /** By number; 0 stands for none. */
  private readonly texts: (Shared | undefined)[] = [undefined]
  private readonly free: number[] = []

  get size(): number {
    return this.numbers.size
  }

  /** The number of a text, for one row more. */
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

  /** For one row less. */
  drop(number: number): void {
    const shared = this.texts[number]!
    if (--shared.rows > 0) return
    this.numbers.delete(shared.text)
    this.texts[number] = undefined
    this.free.push(number)
  }
}
