/**
 * Base58 (Bitcoin alphabet) of byte strings of any length, for what is long: a transaction's inner instructions come as
 * base58, and a settlement's event has some 3,500 bytes. Digit by digit that takes 20 ms; joined and split in halves, so
 * that few large multiplications and divisions do the work, a fraction of one.
 */
import { ALPHABET, DIGIT_OF_CODE, NO_DIGIT } from './base58'
import { concatBytes, fromHex, toHex } from './bytes'

/** Digits that are handled as one exact number. */
const GROUP = 9
/** 58^(GROUP · 2^k), as many as were needed so far. */
const POWERS = [58n ** BigInt(GROUP)]

function power(level: number): bigint {
  while (POWERS.length <= level) POWERS.push(POWERS.at(-1)! ** 2n)
  return POWERS[level]!
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
