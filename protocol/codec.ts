/** Describes binary layouts once for both directions, so that encoding and decoding cannot drift apart. */

import { ByteReader, ByteWriter, CodecError } from './byte_stream'
import { fromHex, toHex } from './bytes'

/** How a layout is made, for interface files; undefined for a part that only code can read. */
export type Shape =
  | { readonly kind: 'uint'; readonly bytes: number }
  | { readonly kind: 'bool' }
  | { readonly kind: 'bytes'; readonly bytes: number }
  | { readonly kind: 'sized'; readonly count: Shape | undefined }
  | { readonly kind: 'constant'; readonly value: Uint8Array }
  | { readonly kind: 'words'; readonly words: readonly string[]; readonly first: number }
  | { readonly kind: 'array'; readonly of: Shape | undefined; readonly count: number | Shape | undefined }
  | { readonly kind: 'struct'; readonly fields: ReadonlyMap<string, Shape | undefined> }
  | {
      readonly kind: 'union'
      readonly layouts: ReadonlyMap<string, Shape | undefined>
      readonly first: number
    }

/** The layout of a value. Integers are little-endian; a value has one encoding, and every other is rejected. */
export type Codec<T> = {
  /** Bytes of every value; undefined when values differ in length. */
  readonly size: number | undefined
  readonly shape: Shape | undefined
  /** Writes within another layout. @throws RangeError when the layout cannot express the value */
  readonly write: (to: ByteWriter, value: T) => void
  /** Reads within another layout. @throws CodecError when the bytes are no encoding */
  readonly read: (from: ByteReader) => T
  /** @throws RangeError when the layout cannot express the value */
  readonly encode: (value: T) => Uint8Array<ArrayBuffer>
  /** @throws CodecError unless the bytes are exactly the encoding of one value */
  readonly decode: (bytes: Uint8Array) => T
}
export type AnyCodec = {
  readonly size: number | undefined
  readonly shape: Shape | undefined
  readonly write: (to: ByteWriter, value: never) => void
  readonly read: (from: ByteReader) => unknown
}
/** The type of the values of a layout. */
export type ValueOf<C extends AnyCodec> = ReturnType<C['read']>

/** Reused by all values: the result is copied out. No `write` may call `encode`. */
const scratch = new ByteWriter()

/** The result of reading untrusted bytes; undefined when they are no encoding. */
export function tryDecode<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (error instanceof CodecError) return undefined
    throw error
  }
}

/** A layout made from its size and a function for each direction. */
export function codec<T>(
  size: number | undefined,
  write: (to: ByteWriter, value: T) => void,
  read: (from: ByteReader) => T,
  shape?: Shape,
): Codec<T> {
  return {
    size,
    shape,
    write,
    read,
    encode(value) {
      scratch.begin()
      write(scratch, value)
      return scratch.done()
    },
    decode(bytes) {
      const from = new ByteReader(bytes)
      const value = read(from)
      from.done()
      return value
    },
  }
}

export const u8: Codec<number> = codec(
  1,
  (to, value) => to.int(value, 1),
  (from) => from.byte(),
  { kind: 'uint', bytes: 1 },
)
export const u16: Codec<number> = codec(
  2,
  (to, value) => to.int(value, 2),
  (from) => from.u16(),
  { kind: 'uint', bytes: 2 },
)
export const u32: Codec<number> = codec(
  4,
  (to, value) => to.int(value, 4),
  (from) => from.u32(),
  { kind: 'uint', bytes: 4 },
)
/** A u64 below 2^53: counts, slots, times. */
export const uint: Codec<number> = codec(
  8,
  (to, value) => to.uint(value),
  (from) => from.uint(),
  { kind: 'uint', bytes: 8 },
)
export const u64: Codec<bigint> = codec(
  8,
  (to, value) => to.u64(value),
  (from) => from.u64(),
  { kind: 'uint', bytes: 8 },
)
/** Counted UTF-8. */
export const text: Codec<string> = codec(
  undefined,
  (to, value) => to.text(value),
  (from) => from.text(),
)
/** Counted bytes. */
export const blob = sized(uint)
export const bool: Codec<boolean> = codec(1, (to, value) => to.byte(value ? 1 : 0), readBool, {
  kind: 'bool',
})

function readBool(from: ByteReader): boolean {
  const byte = from.byte()
  if (byte > 1) throw new CodecError('a flag is neither 0 nor 1')
  return byte === 1
}

/** Bytes after their number. */
export function sized(count: Codec<number>): Codec<Uint8Array> {
  return codec(
    undefined,
    (to, value) => {
      count.write(to, value.length)
      to.fixed(value, value.length)
    },
    (from) => from.fixed(count.read(from)),
    { kind: 'sized', count: count.shape },
  )
}

export function fixed(width: number): Codec<Uint8Array> {
  return codec(
    width,
    (to, value) => to.fixed(value, width),
    (from) => from.fixed(width),
    { kind: 'bytes', bytes: width },
  )
}

/** Lowercase hex of `width` bytes, encoded as the bytes. */
export function hex(width: number): Codec<string> {
  return mapped(fixed(width), toHex, (value) => {
    const bytes = fromHex(value, width)
    if (bytes === undefined) throw new RangeError(`expected hex of ${width} bytes`)
    return bytes
  })
}

/** Printable ASCII, zero padded to `width` bytes. */
export function ascii(width: number): Codec<string> {
  return codec(
    width,
    (to, value) => to.ascii(value, width),
    (from) => from.ascii(width),
  )
}

/** Bytes that every value has: `struct` writes and checks them, and its values do not contain them. */
type Constant = Codec<undefined> & { readonly constant: true }

export function constant(bytes: Uint8Array, fault = 'constant bytes differ'): Constant {
  const read = (from: ByteReader) => {
    if (!from.matches(bytes)) throw new CodecError(fault)
    return undefined
  }
  const shape: Shape = { kind: 'constant', value: bytes }
  return { ...codec(bytes.length, (to) => to.fixed(bytes, bytes.length), read, shape), constant: true }
}

/** The 16 bytes that say which layout follows: ASCII, zero padded. */
export function domain(name: string): Constant {
  return constant(ascii(16).encode(name))
}

/** Reserved bytes. */
export function zeros(width: number): Constant {
  return constant(new Uint8Array(width), 'a reserved byte is not zero')
}

/** One of a closed list of words, as its index plus `first` in one byte: words are only added at the end. */
export function word<const W extends readonly string[]>(words: W, first = 0): Codec<W[number]> {
  return codec<W[number]>(
    1,
    (to, value) => {
      const at = words.indexOf(value)
      if (at === -1) throw new RangeError('a word is not in its list')
      to.byte(at + first)
    },
    (from) => {
      const value = words[from.byte() - first]
      if (value === undefined) throw new CodecError('a word is not in its list')
      return value
    },
    { kind: 'words', words, first },
  )
}

/** A byte 0, or a byte 1 and the value. */
export function option<T>(inner: Codec<T>): Codec<T | undefined> {
  return codec<T | undefined>(
    undefined,
    (to, value) => {
      to.byte(value === undefined ? 0 : 1)
      if (value !== undefined) inner.write(to, value)
    },
    (from) => (readBool(from) ? inner.read(from) : undefined),
  )
}

/** Exactly `length` values. */
export function array<T>(inner: Codec<T>, length: number): Codec<T[]> {
  return codec(
    inner.size === undefined ? undefined : inner.size * length,
    (to, values) => {
      if (values.length !== length) throw new RangeError(`expected ${length} values`)
      for (const value of values) inner.write(to, value)
    },
    (from) => readValues(inner, from, length),
    { kind: 'array', of: inner.shape, count: length },
  )
}

/** At most `most` values after their count. */
export function list<T>(inner: Codec<T>, most = Number.MAX_SAFE_INTEGER, count = uint): Codec<T[]> {
  return codec(
    undefined,
    (to, values) => {
      if (values.length > most) throw new RangeError(`more than ${most} values`)
      count.write(to, values.length)
      for (const value of values) inner.write(to, value)
    },
    (from) => {
      const length = count.read(from)
      if (length > most) throw new CodecError(`more than ${most} values`)
      return readValues(inner, from, length)
    },
    { kind: 'array', of: inner.shape, count: count.shape },
  )
}

/** Grows with the values that are there, so a false count allocates nothing. */
function readValues<T>(inner: Codec<T>, from: ByteReader, length: number): T[] {
  const values: T[] = []
  for (let at = 0; at < length; at++) values.push(inner.read(from))
  return values
}

/** The same bytes as other values. `to` may throw CodecError, `from` RangeError, for a value that has no counterpart. */
export function mapped<A, B>(inner: Codec<A>, to: (value: A) => B, from: (value: B) => A): Codec<B> {
  return codec(
    inner.size,
    (writer, value) => inner.write(writer, from(value)),
    (reader) => to(inner.read(reader)),
    inner.shape,
  )
}

type Fields = Readonly<Record<string, AnyCodec>>
type StructOf<F extends Fields> = {
  -readonly [K in keyof F as F[K] extends Constant ? never : K]: ValueOf<F[K]>
}
type Struct<F extends Fields, T = StructOf<F>> = Codec<T> & {
  /** Offset of a field. @throws RangeError when a field before it varies in length */
  readonly offsetOf: (field: keyof F) => number
}

/** Fields in the order of the description. */
export function struct<const F extends Fields>(fields: F): Struct<F> {
  const names = Object.keys(fields)
  const codecs = Object.values(fields) as unknown as (Codec<unknown> & { constant?: true })[]
  const ends: number[] = []
  for (const { size } of codecs) ends.push((ends.at(-1) ?? 0) + (size ?? Number.NaN))
  const size = ends.at(-1) ?? 0
  const offsetOf = (field: keyof F) => {
    const at = names.indexOf(field as string)
    const offset = at === 0 ? 0 : ends[at - 1]!
    if (Number.isNaN(offset)) throw new RangeError('the field has no fixed place')
    return offset
  }
  const shape: Shape = { kind: 'struct', fields: shapesOf(fields) }
  const whole = Number.isNaN(size) ? undefined : size
  const rows = codec(whole, writerOf(names, codecs), readerOf(names, codecs), shape)
  return { ...rows, offsetOf } as unknown as Struct<F>
}

const shapesOf = (layouts: Fields): ReadonlyMap<string, Shape | undefined> =>
  new Map(Object.entries(layouts).map(([name, { shape }]) => [name, shape]))

type Row = Record<string, unknown>

function writerOf(names: string[], codecs: Codec<unknown>[]) {
  const writes = codecs.map(({ write }) => write)
  return (to: ByteWriter, value: Row): void => {
    for (let at = 0; at < writes.length; at++) writes[at]!(to, value[names[at]!])
  }
}

/** Values begin as copies of one object, so all have one shape: adding the fields one by one takes twice as long. */
function readerOf(names: string[], codecs: (Codec<unknown> & { constant?: true })[]) {
  const reads = codecs.map(({ read }) => read)
  const template: Row = {}
  const keys = names.map((name, at) => (codecs[at]!.constant ? undefined : name))
  for (const key of keys) if (key !== undefined) template[key] = undefined
  return (from: ByteReader): Row => {
    const value = { ...template }
    for (let at = 0; at < reads.length; at++) {
      const key = keys[at]
      const field = reads[at]!(from)
      if (key !== undefined) value[key] = field
    }
    return value
  }
}

type UnionOf<N extends string, C extends Fields> = {
  [K in keyof C]: { [_ in N]: K } & ValueOf<C[K]>
}[keyof C]

/**
 * One of several layouts, after one byte: its place in the description plus `first`. Values carry the layout's name in the
 * field `tag`; layouts are only added at the end.
 */
export function union<const N extends string, const C extends Fields>(
  tag: N,
  layouts: C,
  first = 0,
): Codec<UnionOf<N, C>> {
  const names = Object.keys(layouts)
  const numbers = new Map(names.map((name, at) => [name, at]))
  const codecs = Object.values(layouts) as unknown as Codec<Row>[]
  const write = (to: ByteWriter, value: Row) => {
    const at = numbers.get(value[tag] as string)
    if (at === undefined) throw new RangeError('the tag is not known')
    to.byte(at + first)
    codecs[at]!.write(to, value)
  }
  const read = (from: ByteReader) => {
    const at = from.byte() - first
    if (codecs[at] === undefined) throw new CodecError('the tag is not known')
    const value = codecs[at].read(from)
    value[tag] = names[at]
    return value
  }
  const shape: Shape = { kind: 'union', layouts: shapesOf(layouts), first }
  return codec(undefined, write, read, shape) as unknown as Codec<UnionOf<N, C>>
}

/** A JSON document, counted. */
export function json<T>(): Codec<T> {
  return mapped(
    text,
    (value) => JSON.parse(value) as T,
    (value) => JSON.stringify(value),
  )
}
