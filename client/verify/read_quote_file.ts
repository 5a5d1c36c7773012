/** Reads a quote from a file: raw bytes, hex, or a whole GetQuote or `/attestation` answer. */
import { fromAnyHex } from '../../protocol/bytes'
import { parseJson } from './json_document'
import { Refused } from './transcript'

const DECODER = new TextDecoder('utf-8', { fatal: true })

/** @throws Refused when the bytes are text of neither form. */
export function quoteOfFile(bytes: Uint8Array): Uint8Array {
  const text = textOf(bytes)
  if (text === undefined) return bytes
  const hex = text.startsWith('{') ? quoteMember(text) : text
  const quote = fromAnyHex(hex.replace(/^0x/, '').toLowerCase())
  if (quote === undefined || quote.length === 0) throw new Refused('the file holds no quote')
  return quote
}

/** Undefined for bytes that are no text: a raw quote begins with control characters. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    const text = DECODER.decode(bytes).trim()
    return /^[\x20-\x7e\s]+$/.test(text) ? text : undefined
  } catch {
    return undefined
  }
}

function quoteMember(text: string): string {
  const { quote } = (parseJson(text) ?? {}) as { quote?: unknown }
  if (typeof quote !== 'string') throw new Refused('the file holds no quote')
  return quote
}
