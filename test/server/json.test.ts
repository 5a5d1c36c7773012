/** Strict JSON: what JSON.parse takes is taken, unless a key is named twice, at any depth and in any spelling. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { Refusal } from '../../protocol/refusals'
import { parseJson, textOf } from '../../server/edge/body'

function codeOf(text: string): string {
  try {
    parseJson(text)
    return 'ok'
  } catch (fault) {
    return (fault as Refusal).code
  }
}

test('any JSON value comes back as it was', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const text = JSON.stringify(value)
      expect(parseJson(text)).toEqual(JSON.parse(text))
    }),
  )
})

test('a key named twice is found wherever it stands', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { minKeys: 1 }),
      fc.jsonValue(),
      (object, value) => {
        const name = JSON.stringify(Object.keys(object)[0])
        const text = `${JSON.stringify(object).slice(0, -1)},${name}:${JSON.stringify(value)}}`
        expect(codeOf(text)).toBe('key_duplicate')
        expect(codeOf(`[{"outer":${text}}]`)).toBe('key_duplicate')
      },
    ),
  )
})

test('escapes do not hide a repeated key, and colons in strings do not make one', () => {
  expect(codeOf('{"a":1,"\\u0061":2}')).toBe('key_duplicate')
  expect(codeOf('{"__proto__":1,"__proto__":2}')).toBe('key_duplicate')
  expect(codeOf('{"a":{"b":1,"c":2},"a":{}}')).toBe('key_duplicate')
  expect(codeOf('{"a":":","b":"\\":","c":"\\\\"}')).toBe('ok')
})

test('deep nesting is read without exhausting the stack', () => {
  const depth = 8_000
  expect(['ok', 'json_malformed']).toContain(codeOf('['.repeat(depth) + ']'.repeat(depth)))
})

test('bytes that are no UTF-8, and a byte order mark, are malformed', () => {
  expect(() => textOf(new Uint8Array([0x22, 0xc3, 0x28, 0x22]))).toThrow(Refusal)
  expect(codeOf(textOf(new Uint8Array([0xef, 0xbb, 0xbf, 0x31])))).toBe('json_malformed')
})

test('white space behind a body, which hides its length, changes nothing', () => {
  expect(parseJson(`{"side":"buy"}${' '.repeat(4_000)}`)).toEqual({ side: 'buy' })
})
