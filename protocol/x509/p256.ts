/** Verifies ECDSA on P-256 with SHA-256 by WebCrypto: keys as raw points, signatures as r ‖ s. */
import { concatBytes } from '../bytes'
import { MalformedDer, openDer, readMagnitude, TAG } from './der'

const CURVE = { name: 'ECDSA', namedCurve: 'P-256' } as const
const SIGNATURE = { name: 'ECDSA', hash: 'SHA-256' } as const

/** True when `signature` (r ‖ s, 64 bytes) over `message` is by the key `point` (x ‖ y, 64 bytes); false for other widths. */
export async function isSignedBy(
  point: Uint8Array,
  message: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  const key = await importPoint(point)
  if (key === undefined) return false
  return crypto.subtle.verify(SIGNATURE, key, new Uint8Array(signature), new Uint8Array(message))
}

/** Undefined when the bytes are no point of the curve. */
async function importPoint(point: Uint8Array): Promise<CryptoKey | undefined> {
  const uncompressed = concatBytes(Uint8Array.of(4), point)
  try {
    return await crypto.subtle.importKey('raw', new Uint8Array(uncompressed), CURVE, false, ['verify'])
  } catch {
    return undefined
  }
}

/** r ‖ s of a DER `ECDSA-Sig-Value` (RFC 3279 section 2.2.3). @throws MalformedDer */
export function rawSignature(der: Uint8Array): Uint8Array {
  const reader = openDer(der, TAG.sequence)
  const raw = new Uint8Array(64)
  for (const end of [32, 64]) {
    const magnitude = readMagnitude(reader)
    if (magnitude.length > 32) throw new MalformedDer('signature integer is too long')
    raw.set(magnitude, end - magnitude.length)
  }
  reader.end()
  return raw
}
