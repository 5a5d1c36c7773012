/** Encodes and decodes base58 (Bitcoin alphabet): fixed-width values, and byte strings of any length. */

import bs58 from 'bs58'
import { concatBytes, fromHex, toHex } from './bytes'

const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
const NO_DIGIT = 255
/** By character code. */
const DIGIT_OF_CODE = new Uint8Array(128).fill(NO_DIGIT)
for (let digit = 0; digit < 58; digit++) DIGIT_OF_CODE[ALPHABET.charCodeAt(digit)] = digit

/** Digits per step of `decodeBase58`: 58^3 times a 32-bit limb is still an exact number. */
const DIGITS_PER_STEP = 3
const STEP_POWERS = [1, 58, 58 ** 2, 58 ** 3]

/** Digits per group of the long form: 58^9 is still an exact number. */
const GROUP_DIGITS = 9
/** 58^(GROUP_DIGITS * 2^level) by level; grows on demand. */
const GROUP_POWERS = [58n ** BigInt(GROUP_DIGITS)]

export function encodeBase58(bytes: Uint8Array): string {
  return bs58.encode(bytes)
}

/**
 * Decodes to exactly `width` bytes; undefined for any other length or alphabet. Base58 has
 * one text per byte string, because leading `1` count the leading zero bytes.
 */
export function decodeBase58(text: string, width: number): Uint8Array | undefined {
  if (text.length === 0 || text.length > Math.ceil(width * 1.38) + 1) return undefined
  const limbs = new Uint32Array(Math.ceil(width / 4))
  for (let at = 0; at < text.length; ) {
    const end = Math.min(text.length, at + DIGITS_PER_STEP)
    const power = STEP_POWERS[end - at]!
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

/** Undefined unless the value fits `width` bytes and has as many leading zeros as the text has leading `1`. */
function bytesOf(limbs: Uint32Array, width: number, text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(width)
  for (let place = 0; place < limbs.length * 4; place++) {
    const byte = (limbs[place >> 2]! >>> (8 * (place & 3))) & 0xff
    if (place < width) bytes[width - 1 - place] = byte
    else if (byte !== 0) return undefined
  }
  return leadingZeros(bytes) === leadingOnes(text) ? bytes : undefined
}

/**
 * Decodes text of any length; undefined when a character is outside the alphabet. For long values, such as the inner
 * instruction of a settlement event (about 3,500 bytes): digit by digit takes 20 ms, divide and conquer with few large
 * multiplications a fraction of one.
 */
export function decodeLongBase58(text: string): Uint8Array | undefined {
  const zeros = leadingOnes(text)
  const values: bigint[] = []
  for (let end = text.length; end > zeros; end -= GROUP_DIGITS) {
    let value = 0
    for (let at = Math.max(zeros, end - GROUP_DIGITS); at < end; at++) {
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

/** The number of these groups, least significant first. */
function joined(values: bigint[]): bigint {
  let parts = values
  for (let level = 0; parts.length > 1; level++) {
    const pairs: bigint[] = []
    for (let at = 0; at < parts.length; at += 2) {
      pairs.push(at + 1 < parts.length ? parts[at + 1]! * groupPower(level) + parts[at]! : parts[at]!)
    }
    parts = pairs
  }
  return parts[0]!
}

/** Encodes bytes of any length, with few large divisions. */
export function encodeLongBase58(bytes: Uint8Array): string {
  const zeros = leadingZeros(bytes)
  const ones = ALPHABET[0]!.repeat(zeros)
  if (zeros === bytes.length) return ones
  const number = BigInt(`0x${toHex(bytes.subarray(zeros))}`)
  let level = 0
  while (number >= groupPower(level)) level++
  const digits = split(number, level).replace(/^1+/, '')
  return ones + digits
}

/** The digits of a number below `groupPower(level)`, padded with leading `1`. */
function split(number: bigint, level: number): string {
  if (level > 0) {
    const half = groupPower(level - 1)
    return split(number / half, level - 1) + split(number % half, level - 1)
  }
  let digits = ''
  for (let left = Number(number), at = 0; at < GROUP_DIGITS; at++) {
    digits = ALPHABET[left % 58]! + digits
    left = Math.floor(left / 58)
  }
  return digits
}

function groupPower(level: number): bigint {
  while (GROUP_POWERS.length <= level) GROUP_POWERS.push(GROUP_POWERS.at(-1)! ** 2n)
  return GROUP_POWERS[level]!
}

function leadingZeros(bytes: Uint8Array): number {
  let count = 0
  while (count < bytes.length && bytes[count] === 0) count++
  return count
}

function leadingOnes(text: string): number {
  let count = 0
  while (count < text.length && text[count] === '1') count++
  return count
}
