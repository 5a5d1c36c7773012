/** Describes binary layouts once for both directions, so that writing and reading cannot drift apart. */
import { type ByteReader, type ByteWriter, CodecError } from '../../memory/byte_stream'
import { hexBytes } from '../state/state'

export type Codec<T> = { write(to: ByteWriter, value: T): void; read(from: ByteReader): T }

export const uint: Codec<number> = { write: (to, value) => to.uint(value), read: (from) => from.uint() }
export const u64: Codec<bigint> = { write: (to, value) => to.u64(value), read: (from) => from.u64() }
/** Sums of amounts and their differences. */
export const i128: Codec<bigint> = { write: (to, value) => to.i128(value), read: (from) => from.i128() }
export const text: Codec<string> = { write: (to, value) => to.text(value), read: (from) => from.text() }
export const blob: Codec<Uint8Array> = { write: (to, value) => to.blob(value), read: (from) => from.blob() }
export const bool: Codec<boolean> = {
  write: (to, value) => to.byte(value ? 1 : 0),
  read: (from) => from.byte() === 1,
}

export function fixed(width: number): Codec<Uint8Array> {
  return { write: (to, value) => to.fixed(value, width), read: (from) => from.fixed(width) }
}

/** Lowercase hex of `width` bytes, encoded as the bytes. */
export function hex(width: number): Codec<string> {
  return {
    write: (to, value) => to.fixed(hexBytes(value, width), width),
    read: (from) => from.fixed(width).toHex(),
  }
}

/** One of a closed list of words, encoded as its index in one byte: words are only added at the end. */
export function word<const W extends readonly string[]>(words: W): Codec<W[number]> {
  return {
    write(to, value) {
      const at = words.indexOf(value)
      if (at === -1) throw new CodecError('a word is not in its list')
      to.byte(at)
    },
    read: (from) => wordOf(words, from.byte()),
  }
}

/** @throws CodecError when the list has no such index */
export function wordOf<T>(words: readonly T[], at: number): T {
  const word = words[at]
  if (word === undefined) throw new CodecError('a word is not in its list')
  return word
}

export function option<T>(inner: Codec<T>): Codec<T | undefined> {
  return {
    write(to, value) {
      to.byte(value === undefined ? 0 : 1)
      if (value !== undefined) inner.write(to, value)
    },
    read: (from) => (from.byte() === 1 ? inner.read(from) : undefined),
  }
}

export function list<T>(inner: Codec<T>): Codec<T[]> {
  return {
    write(to, values) {
      to.uint(values.length)
      for (const value of values) inner.write(to, value)
    },
    read: (from) => Array.from({ length: from.uint() }, () => inner.read(from)),
  }
}

/** Fields are encoded in the order of the description. */
export function struct<T extends object>(fields: { [K in keyof T]-?: Codec<T[K]> }): Codec<T> {
  const entries = Object.entries(fields) as [keyof T, Codec<T[keyof T]>][]
  return {
    write(to, value) {
      for (const [name, codec] of entries) codec.write(to, value[name])
    },
    read(from) {
      const value = {} as T
      for (const [name, codec] of entries) value[name] = codec.read(from)
      return value
    },
  }
}

/** A JSON document, for settings: their shape is the operator's configuration. */
export function json<T>(): Codec<T> {
  return {
    write: (to, value) => to.text(JSON.stringify(value)),
    read: (from) => JSON.parse(from.text()) as T,
  }
}
