/** Keys and signatures of a quote in the form that the precompile takes, for random keys of both parities. */
import { expect, test } from 'bun:test'
import { p256 } from '@noble/curves/nist.js'
import fc from 'fast-check'
import { toHex } from '../../../protocol/bytes'
import { compressedKey, lowSignature } from '../../../protocol/vault/quoted_fields'

const seeds = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .filter((seed) => p256.utils.isValidSecretKey(seed))

test('a key is compressed with the parity of its y', () => {
  const parities = new Set<number>()
  fc.assert(
    fc.property(seeds, (seed) => {
      const point = p256.getPublicKey(seed, false).subarray(1)
      const compressed = p256.getPublicKey(seed, true)
      parities.add(compressed[0]!)
      expect(toHex(compressedKey(point))).toBe(toHex(compressed))
    }),
    { numRuns: 60 },
  )
  expect([...parities].sort()).toEqual([2, 3])
})

test('a signature keeps r and its validity, and has the low s', () => {
  let raised = 0
  fc.assert(
    fc.property(seeds, fc.uint8Array({ maxLength: 80 }), (seed, message) => {
      const signature = p256.sign(message, seed, { lowS: false })
      const low = lowSignature(signature)
      raised += Number(toHex(low) !== toHex(signature))
      expect(toHex(low.subarray(0, 32))).toBe(toHex(signature.subarray(0, 32)))
      expect(p256.verify(low, message, p256.getPublicKey(seed), { lowS: true })).toBe(true)
    }),
    { numRuns: 60 },
  )
  expect(raised).toBeGreaterThan(5)
})
