/**
 * The two layouts of a quote's 64 report_data bytes. They stay disjoint: an attestation's second half is a hash and never
 * zero, an evidence quote's second half is always zero, so a caller's nonce cannot imitate evidence. Compare all 64 bytes.
 */
import { concatBytes, utf8 } from '../bytes'
import { sha256 } from '../sha256'

/** Nonce (32 bytes; zero when the caller gave none) ‖ SHA-256(raw 32-byte `tee_pubkey`). */
export function attestationReportData(nonce: Uint8Array, tee_pubkey: Uint8Array): Uint8Array {
  if (nonce.length !== 32 || tee_pubkey.length !== 32) throw new RangeError('expected 32 bytes')
  return concatBytes(nonce, sha256(tee_pubkey))
}

/**
 * In the place of a key in the quotes by which two nodes agree on a link; the nonce is the hash of what they agree on. No
 * quote over a key of a venue has such a second half: a caller of `/attestation`, who chooses the first half, gets no proof.
 */
export const LINK_SIDES = {
  link_asks: sha256(utf8('tacit/link/v1/asks')),
  link_answers: sha256(utf8('tacit/link/v1/answers')),
}

/** SHA-256(bytes of sha256sum.txt) ‖ 32 zero bytes. */
export function evidenceReportData(checksums: Uint8Array): Uint8Array {
  return concatBytes(sha256(checksums), new Uint8Array(32))
}
