/** The client's Ed25519 by WebCrypto follows the strict rule: its verdict is that of the venue's own verification. */
import { expect, test } from 'bun:test'
import { ed25519 } from '@noble/curves/ed25519.js'
import { isSignedByEd25519 } from '../../../client/verify/ed25519_web'
import { concatBytes, fromHex } from '../../../protocol/bytes'
import { verifySignature } from '../../../protocol/ed25519'
import { publicKeyOf, sign } from '../../../protocol/sign'

const seed = new Uint8Array(32).fill(7)
const key = publicKeyOf(seed)
const message = new TextEncoder().encode('tacit/place/v1')
const signature = sign(seed, message)

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
