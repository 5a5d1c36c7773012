/** Reading instruction data exactly, and integers in account data. */
import { must } from './call'

export class Fields {
  #at = 1

  constructor(readonly data: Uint8Array) {}

  bytes(length: number): Uint8Array {
    must(this.#at + length <= this.data.length, 'the data ends early')
    this.#at += length
    return this.data.slice(this.#at - length, this.#at)
  }

  u8(): number {
    return this.bytes(1)[0]!
  }

  u64(): bigint {
    return u64At(this.bytes(8), 0)
  }

  word(): Uint8Array {
    return this.bytes(32)
  }

  words(count: number): Uint8Array[] {
    return Array.from({ length: count }, () => this.word())
  }

  end(): void {
    must(this.#at === this.data.length, 'bytes behind the data')
  }
}

const viewOf = (data: Uint8Array): DataView => new DataView(data.buffer, data.byteOffset, data.length)

export const u64At = (data: Uint8Array, at: number): bigint => viewOf(data).getBigUint64(at, true)
export const u32At = (data: Uint8Array, at: number): number => viewOf(data).getUint32(at, true)
export const u16At = (data: Uint8Array, at: number): number => viewOf(data).getUint16(at, true)
export const wordAt = (data: Uint8Array, at: number): Uint8Array => data.slice(at, at + 32)

const U64_MAX = (1n << 64n) - 1n

export function setU64(data: Uint8Array, at: number, value: bigint): void {
  must(value >= 0n && value <= U64_MAX, 'a number leaves its range')
  viewOf(data).setBigUint64(at, value, true)
}

export const setU32 = (data: Uint8Array, at: number, value: number): void =>
  viewOf(data).setUint32(at, value, true)
export const setU16 = (data: Uint8Array, at: number, value: number): void =>
  viewOf(data).setUint16(at, value, true)
