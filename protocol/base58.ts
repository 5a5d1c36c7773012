/** Base58 (Bitcoin alphabet): fixed-width values in their one canonical spelling, and byte strings of any length. */

import bs58 from 'bs58'
import { concatBytes, fromHex, toHex } from './bytes'

// Base58 (Bitcoin alphabet) of fixed-width values, in their one canonical spelling.

export function encodeBase58(bytes: Uint8Array): string {
  return bs58.encode(bytes)
}

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const NO_DIGIT = 255
/** By character code. */
const DIGIT_OF_CODE = new Uint8Array(128).fill(NO_DIGIT)
for (let digit = 0; digit < 58; digit++) DIGIT_OF_CODE[ALPHABET.charCodeAt(digit)] = digit

/** Digits taken at a time: 58^3 times a limb of 32 bits is still an exact number. */
const DIGITS_AT_A_TIME = 3
const POWERS = [1, 58, 58 ** 2, 58 ** 3]

/**
 * Decodes to exactly `width` bytes; undefined for any other length or alphabet. The spelling is canonical by
 * construction: base58 has one text per byte string, and leading `1` count the leading zero bytes.
 */
export function decodeBase58(text: string, width: number): Uint8Array | undefined {
  if (text.length === 0 || text.length > Math.ceil(width * 1.38) + 1) return undefined
  const limbs = new Uint32Array(Math.ceil(width / 4))
  for (let at = 0; at < text.length; ) {
    const end = Math.min(text.length, at + DIGITS_AT_A_TIME)
    const power = POWERS[end - at]!
    let carry = 0
    for (; at < end; at++) {
      const digit = DIGIT_OF_CODE[text.charCodeAt(at)] ?? NO_DIGIT
      if (digit === NO_DIGIT) return undefined
      carry = carry * 58 + digit
    }
    for (let limb = 0; limb < limbs.length; limb++) {
      const product = limbs[limb]! * power + carry
      limbs[limb] = product
      carry = Math.floor(product / 0x1_0000_0000)
    }
    if (carry !== 0) return undefined
  }
  return bytesOf(limbs, width, text)
}

/** Undefined unless the value has `width` bytes with just as many leading zeros as the text has leading `1`. */
function bytesOf(limbs: Uint32Array, width: number, text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(width)
  for (let place = 0; place < limbs.length * 4; place++) {
    const byte = (limbs[place >> 2]! >>> (8 * (place & 3))) & 0xff
    if (place < width) bytes[width - 1 - place] = byte
    else if (byte !== 0) return undefined
  }
  let zeros = 0
  while (zeros < width && bytes[zeros] === 0) zeros++
  let ones = 0
  while (ones < text.length && text[ones] === '1') ones++
  return zeros === ones ? bytes : undefined
}

// Base58 (Bitcoin alphabet) of byte strings of any length, for what is long: a transaction's inner instructions come as
// base58, and a settlement's event has some 3,500 bytes. Digit by digit that takes 20 ms; joined and split in halves, so
// that few large multiplications and divisions do the work, a fraction of one.

/** Digits that are handled as one exact number. */
const GROUP = 9
/** 58^(GROUP · 2^k), as many as were needed so far. */
const GROUP_POWERS = [58n ** BigInt(GROUP)]

function power(level: number): bigint {
  while (GROUP_POWERS.length <= level) GROUP_POWERS.push(GROUP_POWERS.at(-1)! ** 2n)
  return GROUP_POWERS[level]!
}

/** Undefined for a text with any other character. */
export function decodeLongBase58(text: string): Uint8Array | undefined {
  let zeros = 0
  while (zeros < text.length && text[zeros] === ALPHABET[0]) zeros++
  const values: bigint[] = []
  for (let end = text.length; end > zeros; end -= GROUP) {
    let value = 0
    for (let at = Math.max(zeros, end - GROUP); at < end; at++) {
      const digit = DIGIT_OF_CODE[text.charCodeAt(at)] ?? NO_DIGIT
      if (digit === NO_DIGIT) return undefined
      value = value * 58 + digit
    }
    values.push(BigInt(value))
  }
  if (values.length === 0) return new Uint8Array(zeros)
  const hex = joined(values).toString(16)
  const number = fromHex(hex.length % 2 === 0 ? hex : `0${hex}`, Math.ceil(hex.length / 2))!
  return concatBytes(new Uint8Array(zeros), number)
}

/** The number whose groups these are, lowest first. */
function joined(values: bigint[]): bigint {
  let parts = values
  for (let level = 0; parts.length > 1; level++) {
    const pairs: bigint[] = []
    for (let at = 0; at < parts.length; at += 2) {
      pairs.push(at + 1 < parts.length ? parts[at + 1]! * power(level) + parts[at]! : parts[at]!)
    }
    parts = pairs
  }
  return parts[0]!
}

export function encodeLongBase58(bytes: Uint8Array): string {
  let zeros = 0
  while (zeros < bytes.length && bytes[zeros] === 0) zeros++
  const ones = ALPHABET[0]!.repeat(zeros)
  if (zeros === bytes.length) return ones
  const number = BigInt(`0x${toHex(bytes.subarray(zeros))}`)
  let level = 0
  while (number >= power(level)) level++
  const digits = split(number, level).replace(/^1+/, '')
  return ones + digits
}

/** The digits of a number below `power(level)`, with leading ones. */
function split(number: bigint, level: number): string {
  if (level > 0) {
    const half = power(level - 1)
    return split(number / half, level - 1) + split(number % half, level - 1)
  }
  let digits = ''
  for (let left = Number(number), at = 0; at < GROUP; at++) {
    digits = ALPHABET[left % 58]! + digits
    left = Math.floor(left / 58)
  }
  return digits
}
