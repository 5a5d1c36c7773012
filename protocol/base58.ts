/** Base58 (Bitcoin alphabet) of fixed-width values, in their one canonical spelling. */
import bs58 from 'bs58'

export function encodeBase58(bytes: Uint8Array): string {
  return bs58.encode(bytes)
}

export const ALPHABET = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
export const NO_DIGIT = 255
/** By character code. */
export const DIGIT_OF_CODE = new Uint8Array(128).fill(NO_DIGIT)
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
