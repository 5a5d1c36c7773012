/** Judges the export of one batch: who signed it, and whether its members give the result that it states. */
import { decryptWithIdentity } from '../../protocol/age'
import {
  type AuctionExport,
  decodeExport,
  type SignedExport,
  signedExportBytes,
  unpadExport,
} from '../../protocol/bodies/auction_export'
import { type AuctionResult, auctionHash } from '../../protocol/bodies/auction_result'
import { decodeStatement, type StatementBody } from '../../protocol/bodies/binding'
import { equalBytes } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import { verifySignature } from '../../protocol/ed25519'
import { Refused } from '../verify/transcript'
import { recomputeBatch } from './recompute_batch'

/** The export does not show what it states; the message names the first check that fails. */
class ExportRefused extends Refused {
  override readonly name = 'ExportRefused'
}

/** The venue that the evidence attests: its id, and the settlement key of its epoch, which certifies the key of an export. */
export type AttestedVenue = { venue: Uint8Array; tee_pubkey: Uint8Array }
export type BatchAudit = {
  exported: AuctionExport
  recomputed: AuctionResult
  /** The venue and the epoch of the signature. */
  signer: StatementBody
}

/**
 * Decrypts, verifies the chain of keys and the signature, holds the auction again and compares.
 * @param attested undefined: only the signature by the key that the file itself certifies is known, not whose key it is
 * @throws ExportRefused
 */
export async function auditBatch(
  file: Uint8Array,
  identity: string,
  attested: AttestedVenue | undefined,
): Promise<BatchAudit> {
  const padded = await decryptWithIdentity(identity, file)
  if (padded === undefined) throw new ExportRefused('the file is for another key, or was changed')
  const sealed = tryDecode(() => unpadExport(padded))
  if (sealed === undefined) throw new ExportRefused('the file is not an export')
  const signer = verifySigner(sealed, attested)
  const exported = tryDecode(() => decodeExport(sealed.content))
  if (exported === undefined) throw new ExportRefused('the content of the export is malformed')
  const recomputed = recomputedOf(exported)
  if (
    recomputed.volume_lots !== exported.volume_lots ||
    (recomputed.price_ticks ?? 0) !== exported.price_ticks ||
    !equalBytes(auctionHash(recomputed), exported.result_hash)
  )
    throw new ExportRefused('these orders give another result than the venue recorded')
  return { exported, recomputed, signer }
}

function verifySigner(sealed: SignedExport, attested: AttestedVenue | undefined): StatementBody {
  const signer = tryDecode(() => decodeStatement(sealed.certificate))
  if (signer === undefined) throw new ExportRefused('the certificate of the export is malformed')
  const { venue, epoch, statement_key } = signer
  if (attested !== undefined) {
    if (!equalBytes(venue, attested.venue)) throw new ExportRefused('the export is of another venue')
    if (!verifySignature(sealed.certificate_signature, sealed.certificate, attested.tee_pubkey))
      throw new ExportRefused('the key of the export is not certified by the attested venue')
  }
  if (!verifySignature(sealed.signature, signedExportBytes(venue, epoch, sealed.content), statement_key))
    throw new ExportRefused('the export is not signed by its certified key')
  return signer
}

function recomputedOf(exported: AuctionExport): AuctionResult {
  try {
    return recomputeBatch(exported)
  } catch (error) {
    if (error instanceof RangeError) throw new ExportRefused(`no book holds these orders: ${error.message}`)
    throw error
  }
}
