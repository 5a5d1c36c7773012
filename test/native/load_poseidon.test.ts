/** The compiled Poseidon hashes like the reference, and is trusted only if it does. */
import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { concatBytes } from '../../protocol/bytes'
import { FIELD_MODULUS } from '../../protocol/field'
import {
  installPoseidon,
  POSEIDON_VECTORS,
  poseidonEach,
  poseidonOf,
  purePoseidon,
} from '../../protocol/notes/poseidon'

const native = loadNativePoseidon()
if (native === undefined) console.log('the native Poseidon is not tried: it is built for x86-64 Linux')

afterEach(() => void installPoseidon(purePoseidon))

const integerBytes = (value: bigint) => Uint8Array.fromHex(value.toString(16).padStart(64, '0'))
/** Any 32 bytes, the field's borders and multiples of its order more often. */
const element = fc.oneof(
  fc.uint8Array({ minLength: 32, maxLength: 32 }),
  fc
    .tuple(fc.bigInt({ min: 0n, max: 5n }), fc.bigInt({ min: -2n, max: 2n }))
    .filter(([times, off]) => times * FIELD_MODULUS + off >= 0n)
    .map(([times, off]) => integerBytes(times * FIELD_MODULUS + off)),
  fc.bigInt({ min: 0n, max: 255n }).map((bit) => integerBytes((1n << (bit + 1n)) - 1n)),
)

describe('the fixed vectors', () => {
  test('are hashes of the reference and of the syscall', () => {
    for (const { arity, elements, hashes } of POSEIDON_VECTORS)
      expect(purePoseidon(arity, elements)).toEqual(hashes)
    expect(POSEIDON_VECTORS[1]!.hashes.slice(0, 32).toHex()).toBe(
      '115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a',
    )
  })

  test('refuse an implementation with one wrong bit in any of them, and it is not used', () => {
    for (const { arity } of POSEIDON_VECTORS) {
      for (const group of [0, 1, 2]) {
        const wrong = installPoseidon((asked, elements) => {
          const hashes = purePoseidon(asked, elements)
          if (asked === arity) hashes[32 * group + 31]! ^= 1
          return hashes
        })
        expect(wrong).toBe(false)
      }
    }
    expect(poseidonOf(1, 2)).toEqual(POSEIDON_VECTORS[1]!.hashes.slice(0, 32))
  })
})

describe('the face', () => {
  test('an unknown arity, a part of a group or an oversized element is refused', () => {
    expect(() => poseidonEach(0, new Uint8Array(0))).toThrow(RangeError)
    expect(() => poseidonEach(6, new Uint8Array(192))).toThrow(RangeError)
    expect(() => poseidonEach(2, new Uint8Array(96))).toThrow(RangeError)
    expect(() => poseidonOf(1, new Uint8Array(33))).toThrow(RangeError)
    expect(() => poseidonOf(1, FIELD_MODULUS)).toThrow(RangeError)
    expect(poseidonEach(2, new Uint8Array(0))).toEqual(new Uint8Array(0))
  })

  test('short elements are numbers: leading zeros change nothing', () => {
    expect(poseidonOf(Uint8Array.of(1), 2)).toEqual(poseidonOf(1, integerBytes(2n)))
  })
})

describe('the library', () => {
  test('is there on the machine that it is built for', () => {
    expect(native !== undefined).toBe(process.platform === 'linux' && process.arch === 'x64')
  })

  test('absent or damaged, it is not there', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-poseidon-'))
    try {
      expect(loadNativePoseidon(join(folder, 'poseidon.so'))).toBeUndefined()
      writeFileSync(join(folder, 'poseidon.so'), 'not a library')
      expect(loadNativePoseidon(join(folder, 'poseidon.so'))).toBeUndefined()
      // Loaded, it ends the process.
      const library = readFileSync(join(import.meta.dir, '../../native/poseidon.so'))
      writeFileSync(join(folder, 'poseidon.so'), library.subarray(0, library.length >> 1))
      expect(loadNativePoseidon(join(folder, 'poseidon.so'))).toBeUndefined()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test.skipIf(native === undefined)('is accepted, and hashes any bytes like the reference', () => {
    expect(installPoseidon(native!)).toBe(true)
    const groups = fc
      .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 4 }))
      .chain(([arity, count]) =>
        fc.tuple(
          fc.constant(arity),
          fc.array(element, { minLength: arity * count, maxLength: arity * count }),
        ),
      )
    fc.assert(
      fc.property(groups, ([arity, elements]) => {
        const bytes = concatBytes(...elements)
        expect(poseidonEach(arity, bytes)).toEqual(purePoseidon(arity, bytes))
      }),
      { numRuns: 400 },
    )
  })
})
