/** Judges the export of one batch: who signed it, and whether its members give the result that it states. */

import { Book } from '../../engine/machine/book/book'
import { cross } from '../../engine/machine/book/cross'
import { BUY, FOK, IOC, LIMIT, OrderPool, SELL } from '../../engine/machine/book/order_pool'
import { decryptWithIdentity } from '../../protocol/age'
import {
  type AuctionExport,
  type AuctionResult,
  auctionHash,
  decodeExport,
  type SignedExport,
  signedExportBytes,
  unpadExport,
} from '../../protocol/bodies/auction_export'
import { STATEMENT_BODY, type StatementBody } from '../../protocol/bodies/statements'
import { equalBytes, fromHex, toHex } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import { verifySignature } from '../../protocol/ed25519'
import { Refused } from '../verify/transcript'

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
  const signer = tryDecode(() => STATEMENT_BODY.decode(sealed.certificate))
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

const KINDS = { limit: LIMIT, ioc: IOC, fok: FOK } as const

/** The result of the match of exactly these members. @throws RangeError for members that no book holds */
export function recomputeBatch(exported: AuctionExport): AuctionResult {
  const { orders, symbol, batch, slot, reference_ticks, seed } = exported
  const pool = new OrderPool(orders.length + 1)
  const book = new Book(pool, reference_ticks)
  for (const [at, order] of orders.entries()) {
    if (at > 0 && !(orders[at - 1]!.order_id < order.order_id))
      throw new RangeError('the orders are not in ascending order of their ids')
    if (order.arrival_batch > batch) throw new RangeError('an order arrived after the batch')
    book.add({
      side: order.side === 'buy' ? BUY : SELL,
      kind: KINDS[order.type],
      tick: order.ticks,
      lots: order.lots,
      min_fill: order.min_lots,
      arrival_batch: order.arrival_batch,
      order_id: fromHex(order.order_id, 16)!,
    })
  }
  const { collar_bps, price_rule, volume_tolerance_bps } = exported
  const terms = { reference: reference_ticks, collar_bps, price_rule, volume_tolerance_bps, seed }
  const { price, volume, buys, sells, remainders } = cross(book, terms)
  const idOf = (handle: number) => toHex(pool.orderId(handle))
  const fills = [buys, sells].flatMap(({ handles, lots }) =>
    Array.from(handles, (handle, at) => ({ order_id: idOf(handle), lots: lots[at]! })),
  )
  return {
    symbol,
    batch,
    slot,
    reference_ticks,
    seed,
    price_ticks: price,
    volume_lots: volume,
    fills: fills.sort((a, b) => (a.order_id < b.order_id ? -1 : 1)),
    cancelled: remainders.map(idOf).sort(),
  }
}
