/** What certificates and revocation lists share: a body, the algorithm that signed it, and the signature (RFC 5280). */
import { equalBytes } from '../../../protocol/bytes'
import { type DerReader, MalformedDer, openDer, TAG } from './der'
import { readBitString, readOid } from './der_values'
import { rawSignature } from './p256'

const ECDSA_SHA256 = '1.2.840.10045.4.3.2'

export type Signed = {
  /** DER of the body, which is what is signed. */
  signed: Uint8Array
  /** r ‖ s, 64 bytes. */
  signature: Uint8Array
  body: DerReader
  /** Reads the algorithm the body names again. @throws MalformedDer unless both are ECDSA with SHA-256 */
  readAlgorithm(): void
}

/** @throws MalformedDer */
export function openSigned(der: Uint8Array): Signed {
  const outer = openDer(der, TAG.sequence)
  const signed = outer.whole(TAG.sequence)
  const algorithm = outer.whole(TAG.sequence)
  const signature = rawSignature(readBitString(outer))
  outer.end()
  const body = openDer(signed, TAG.sequence)
  return {
    signed,
    signature,
    body,
    readAlgorithm() {
      if (!equalBytes(body.whole(TAG.sequence), algorithm))
        throw new MalformedDer('signature algorithms differ')
      const reader = openDer(algorithm, TAG.sequence)
      if (readOid(reader) !== ECDSA_SHA256) throw new MalformedDer('not signed by ECDSA with SHA-256')
      reader.end()
    },
  }
}
