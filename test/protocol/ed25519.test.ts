/** The strict signature rule: what libsodium rejects is rejected here, by the platform and by each compiled library. */

import { describe, expect, test } from 'bun:test'
import { ed25519 } from '@noble/curves/ed25519.js'
import { isSignedByEd25519 } from '../../client/verify/ed25519_web'
import { loadNativeEd25519 } from '../../native/load_ed25519'
import { concatBytes, fromHex } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { passesStrictRule } from '../../protocol/ed25519_rule'
import { publicKeyOf, sign } from '../../protocol/sign'

const b = (hex: string) => fromHex(hex, hex.length / 2)!
const seed = new Uint8Array(32).fill(7)
const key = publicKeyOf(seed)
const message = new TextEncoder().encode('tacit/place/v1')
const signature = sign(seed, message)

/** Little-endian encoding of an integer in 32 bytes. */
function le(value: bigint): Uint8Array {
  return b(value.toString(16).padStart(64, '0')).reverse()
}
const PRIME = 2n ** 255n - 19n

/** "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko), table of 12 speccheck cases: message, key, signature. */
const SMALL_ORDER_KEYS = [
  '0100000000000000000000000000000000000000000000000000000000000000',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0000000000000000000000000000000000000000000000000000000000000080',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85',
]

// Most of these keys have no known secret, so a failed verification would not show that the strict rule rejects them.
test('the strict rule by itself: bounds met exactly and missed by one', () => {
  const order = ed25519.Point.Fn.ORDER
  const [r, s] = [signature.subarray(0, 32), signature.subarray(32)]
  const signed = (y: bigint) => le(y | (1n << 255n))
  expect(passesStrictRule(signature, le(PRIME - 2n))).toBe(true)
  expect(passesStrictRule(signature, signed(PRIME - 2n))).toBe(true)
  for (let above = 0n; above < 19n; above++) {
    expect(passesStrictRule(signature, le(PRIME + above))).toBe(false)
    expect(passesStrictRule(signature, signed(PRIME + above))).toBe(false)
  }
  for (const point of SMALL_ORDER_KEYS.map(b)) {
    expect(passesStrictRule(signature, point)).toBe(false)
    expect(passesStrictRule(concatBytes(point, s), key)).toBe(false)
  }
  expect(passesStrictRule(concatBytes(r, le(order - 1n)), key)).toBe(true)
  for (const scalar of [order, order + 1n, 1n << 253n])
    expect(passesStrictRule(concatBytes(r, le(scalar)), key)).toBe(false)
})

const AVX2_ONLY = 'abm avx avx2 bmi1 bmi2 f16c fma movbe'
const fastest = loadNativeEd25519()
const compiled = [fastest, fastest && loadNativeEd25519(undefined, AVX2_ONLY)].filter(
  (one) => one !== undefined,
)

describe.each([
  ['the platform', verifySignature] as const,
  ...compiled.map((one, at) => [`library ${at}`, one] as const),
])('strict Ed25519 by %s', (_, verify) => {
  // A library that keeps decompressed keys has this one before it meets the others.
  test('a good signature is accepted', () => {
    expect(verify(signature, message, key)).toBe(true)
  })

  test('other widths are never accepted, a trailing byte included', () => {
    expect(verify(concatBytes(signature, Uint8Array.of(0)), message, key)).toBe(false)
    expect(verify(signature.subarray(0, 63), message, key)).toBe(false)
    expect(verify(signature, message, concatBytes(key, Uint8Array.of(0)))).toBe(false)
    expect(verify(signature, message, key.subarray(0, 31))).toBe(false)
  })

  test('the universal forgery (key = R = identity, S = 0) signs nothing', () => {
    const identity = b(SMALL_ORDER_KEYS[0]!)
    const forged = concatBytes(identity, new Uint8Array(32))
    expect(ed25519.verify(forged, message, identity)).toBe(true)
    expect(verify(forged, message, identity)).toBe(false)
  })

  test('a key or R of small order is refused with either sign bit', () => {
    for (const point of SMALL_ORDER_KEYS.map(b)) {
      expect(verify(signature, message, point)).toBe(false)
      expect(verify(concatBytes(point, signature.subarray(32)), message, key)).toBe(false)
    }
  })

  test('a key with y at or above the field prime is refused', () => {
    for (const y of [PRIME, PRIME + 1n, PRIME + 18n]) {
      expect(verify(signature, message, le(y))).toBe(false)
      expect(verify(signature, message, le(y | (1n << 255n)))).toBe(false)
    }
  })

  test('a key or R that is no point of the curve is refused', () => {
    let outside = 0
    for (let y = 2n; y < 66n; y++) {
      for (const point of [le(y), le(y | (1n << 255n)), le(PRIME - y)]) {
        try {
          ed25519.Point.fromBytes(point)
          continue
        } catch {
          outside++
        }
        expect(verify(signature, message, point)).toBe(false)
        expect(verify(concatBytes(point, signature.subarray(32)), message, key)).toBe(false)
      }
    }
    expect(outside).toBeGreaterThan(64)
  })

  test('S at or above the group order is refused (malleability)', () => {
    const order = ed25519.Point.Fn.ORDER
    const scalar = BigInt(`0x${Buffer.from(signature.subarray(32)).reverse().toString('hex')}`)
    const malleated = concatBytes(signature.subarray(0, 32), le(scalar + order))
    expect(verify(malleated, message, key)).toBe(false)
  })

  test('random flips never verify, and noble agrees on honest signatures', () => {
    for (let at = 0; at < 64; at++) {
      const flipped = signature.slice()
      flipped[at]! ^= 1 << (at % 8)
      expect(verify(flipped, message, key)).toBe(false)
    }
    for (let round = 0; round < 16; round++) {
      const each = new Uint8Array(32).fill(round + 1)
      const made = sign(each, message)
      expect(verify(made, message, publicKeyOf(each))).toBe(ed25519.verify(made, message, publicKeyOf(each)))
    }
  })
})

test('a good signature is accepted, and every flipped bit or other width is not', async () => {
  expect(await isSignedByEd25519(signature, message, key)).toBe(true)
  for (let at = 0; at < 64; at++)
    expect(await isSignedByEd25519(signature.with(at, signature[at]! ^ 1), message, key)).toBe(false)
  expect(await isSignedByEd25519(signature, message.slice(1), key)).toBe(false)
  for (const [one, other] of [
    [signature.slice(1), key],
    [concatBytes(signature, Uint8Array.of(0)), key],
    [signature, key.slice(1)],
    [signature, concatBytes(key, Uint8Array.of(0))],
  ] as const)
    expect(await isSignedByEd25519(one, message, other)).toBe(false)
})

test('forgeries that a platform accepts are rejected', async () => {
  const identity = fromHex(`01${'00'.repeat(31)}`, 32)!
  const universal = concatBytes(identity, new Uint8Array(32))
  expect(ed25519.verify(universal, message, identity)).toBe(true)
  expect(await isSignedByEd25519(universal, message, identity)).toBe(false)
  // y = 1 + the field prime, another spelling of the identity.
  const respelt = fromHex(`ee${'ff'.repeat(30)}7f`, 32)!
  const scalar = BigInt(`0x${Buffer.from(signature.slice(32)).reverse().toString('hex')}`)
  const high = (scalar + ed25519.Point.Fn.ORDER).toString(16).padStart(64, '0')
  const malleated = concatBytes(signature.slice(0, 32), fromHex(high, 32)!.reverse())
  for (const [one, by] of [
    [universal, identity],
    [universal, respelt],
    [malleated, key],
  ] as const) {
    expect(await isSignedByEd25519(one, message, by)).toBe(false)
    expect(verifySignature(one, message, by)).toBe(false)
  }
})
