/** Deterministic CBOR (RFC 8949 section 4.2), as far as a measurement document needs it: unsigned, bytes, text, map. */
import { Refused } from '../refused'

export type CborValue = number | string | Uint8Array | CborMap
export type CborMap = ReadonlyMap<string, CborValue>

const MAJOR = { unsigned: 0, bytes: 2, text: 3, map: 5 } as const
const DEPTH_MAX = 8
const DECODER = new TextDecoder('utf-8', { fatal: true })

/** @throws Refused unless the bytes are exactly one map with text keys. */
export function decodeCborMap(bytes: Uint8Array): CborMap {
  const cursor = { bytes, at: 0 }
  const value = readValue(cursor, 0)
  if (!(value instanceof Map) || cursor.at !== bytes.length) throw malformed()
  return value
}

type Cursor = { bytes: Uint8Array; at: number }
const malformed = (): Refused => new Refused('the measurement document is malformed')

function readValue(cursor: Cursor, depth: number): CborValue {
  const [major, argument] = readHead(cursor)
  if (major === MAJOR.unsigned) return argument
  if (major === MAJOR.bytes) return take(cursor, argument).slice()
  if (major === MAJOR.text) return readText(cursor, argument)
  if (major !== MAJOR.map || depth === DEPTH_MAX) throw malformed()
  const map = new Map<string, CborValue>()
  for (let entry = 0; entry < argument; entry++) {
    const key = readValue(cursor, depth + 1)
    if (typeof key !== 'string' || map.has(key)) throw malformed()
    map.set(key, readValue(cursor, depth + 1))
  }
  return map
}

/** Major type and argument, in the shortest form. */
function readHead(cursor: Cursor): [major: number, argument: number] {
  const first = take(cursor, 1)[0]!
  const [major, info] = [first >> 5, first & 0x1f]
  if (info < 24) return [major, info]
  const width = { 24: 1, 25: 2, 26: 4 }[info]
  if (width === undefined) throw malformed()
  const argument = take(cursor, width).reduce((value, byte) => value * 256 + byte, 0)
  if (argument < (width === 1 ? 24 : 256 ** (width / 2))) throw malformed()
  return [major, argument]
}

function readText(cursor: Cursor, length: number): string {
  try {
    return DECODER.decode(take(cursor, length))
  } catch (error) {
    if (error instanceof TypeError) throw malformed()
    throw error
  }
}

function take(cursor: Cursor, length: number): Uint8Array {
  const from = cursor.at
  cursor.at += length
  if (cursor.at > cursor.bytes.length) throw malformed()
  return cursor.bytes.subarray(from, cursor.at)
}
