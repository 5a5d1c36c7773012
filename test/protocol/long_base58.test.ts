/** Base58 of long values against the package that everybody uses. */
import { expect, test } from 'bun:test'
import bs58 from 'bs58'
import { decodeLongBase58, encodeLongBase58 } from '../../protocol/base58'

test('any bytes of any length have the text the package gives, and come back', () => {
  for (let length = 0; length < 600; length++) {
    const bytes = crypto.getRandomValues(new Uint8Array(length))
    if (length % 3 === 0) bytes.fill(0, 0, length % 11)
    if (length % 50 === 7) bytes.fill(0xff)
    if (length % 50 === 9) bytes.fill(0)
    const text = bs58.encode(bytes)
    expect(encodeLongBase58(bytes)).toBe(text)
    expect(decodeLongBase58(text)).toEqual(bytes)
  }
})

test('the powers at which values are split, and their neighbours', () => {
  for (const digits of [8, 9, 10, 17, 18, 19, 35, 36, 37, 72, 73]) {
    for (const text of [`2${'1'.repeat(digits)}`, 'z'.repeat(digits), `1${'z'.repeat(digits)}`]) {
      expect(decodeLongBase58(text)).toEqual(new Uint8Array(bs58.decode(text)))
      expect(encodeLongBase58(bs58.decode(text))).toBe(text)
    }
  }
})

test('a character that is no digit makes the text none, wherever it stands', () => {
  for (const wrong of ['0', 'O', 'I', 'l', ' ', '\u0131']) {
    for (const text of [`${wrong}22222222222`, `2222222${wrong}2222`, `11${wrong}`]) {
      expect(decodeLongBase58(text)).toBeUndefined()
    }
  }
  expect(decodeLongBase58('')).toEqual(new Uint8Array(0))
})
