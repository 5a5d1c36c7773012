/** Hex of any length, for the strings a guest agent gives; values of a known width use `fromHex`. */
import { fromHex } from './bytes'

/** Decodes lowercase hex of whole bytes; undefined for any other text. */
export function fromAnyHex(text: string): Uint8Array | undefined {
  return text.length % 2 === 0 ? fromHex(text, text.length / 2) : undefined
}
