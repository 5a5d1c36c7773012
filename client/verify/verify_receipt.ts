/**
 * Verifies the venue's signed statements with WebCrypto: receipts of commands in its journal, and chained market statistics.
 */
import { decodeBase58 } from '../../protocol/base58'
import {
  PERIOD_S,
  RECEIPT_BODY,
  STATEMENT_BODY,
  STATEMENT_BYTES,
  type StatementBody,
  sealStatisticsRow,
  statisticsRowBody,
} from '../../protocol/bodies/statements'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { RECEIPT_PATH_MAX } from '../../protocol/limits'
import { isInReceipt, treeLeaf } from '../../protocol/rfc6962_tree'
import { passesStrictRule } from '../../protocol/sign'
import { parseU64 } from '../../protocol/units'
import type { Attestation, Statistics, StatisticsPeriod, StatisticsRow } from '../../protocol/wire/public'
import type { Receipt } from '../../protocol/wire/trading'
import { Refused, requireThat } from './transcript'

/** The receipt does not prove the command; the message names the reason. */
export class ReceiptRefused extends Refused {
  override readonly name = 'ReceiptRefused'
  override readonly code = 'receipt_refused'
}

/** The certificate of a statement key: the settlement key's signature. Hex; `tee_pubkey` base58. */
export type StatementCertificate = Pick<Attestation['binding'], 'certificate' | 'certificate_signature'> &
  Pick<Attestation, 'tee_pubkey'>

/** All that proves a receipt to anyone who accepts the settlement key. */
export type ReceiptProof = StatementCertificate & {
  format: typeof PROOF_FORMAT
  /** The sent command, as `commandBytes` encodes it, hex. */
  command: string
  receipt: Receipt
}
export const PROOF_FORMAT = 'tacit/receipt/v1'

/** The signer of a venue's receipts for one epoch: 32-byte venue id, 32-byte Ed25519 statement key, epoch. */
export type VenueIdentity = StatementBody

/**
 * The identity that a verified venue is certified for. A venue has another statement key after each restart, so the
 * identity belongs to the receipts of this connection; keep it with them.
 * @param of a verified venue, or a bundle of evidence that was accepted: nothing is verified here
 * @throws Refused, CodecError when the certificate is malformed or certifies another key
 */
export function identityOf(of: Certified): VenueIdentity {
  const { attestation } = Object(of?.leader ?? of) as Certified
  const { certificate, statement_key } = Object(attestation?.binding) as Attestation['binding']
  const bytes = typeof certificate === 'string' ? fromHex(certificate, STATEMENT_BYTES) : undefined
  const key = typeof statement_key === 'string' ? decodeBase58(statement_key, 32) : undefined
  if (bytes === undefined || key === undefined) throw new Refused('the statement certificate is malformed')
  const identity = STATEMENT_BODY.decode(bytes)
  requireThat(equalBytes(identity.statement_key, key), 'another statement key is certified')
  requireThat(identity.epoch > 0n, 'a node of no epoch signs nothing for the venue')
  return identity
}

/** A verified venue or an accepted bundle, which for a node that follows includes the one that leads. */
type Certified = { attestation: Attestation; leader?: { attestation: Attestation } | null }

/** The certificate that `identityOf` reads, with the signature that a third party needs. */
export function certificateOf(of: Certified): StatementCertificate {
  const { attestation } = of.leader ?? of
  const { certificate, certificate_signature } = attestation.binding
  return { certificate, certificate_signature, tee_pubkey: attestation.tee_pubkey }
}

/** @throws CodecError for a certificate of another form */
export const certifiedBy = ({ certificate }: StatementCertificate): VenueIdentity =>
  STATEMENT_BODY.decode(hex('certificate', certificate, STATEMENT_BYTES))

/**
 * Verifies a receipt with its certificate, as evidence for a third party. The caller compares the owner of the settlement key
 * with a verified venue, or with accepted evidence of that time.
 * @throws ReceiptRefused
 */
export async function verifyReceiptProof(proof: ReceiptProof): Promise<VenueIdentity> {
  const { format, command, certificate, certificate_signature, tee_pubkey, receipt } = Object(proof)
  if (format !== PROOF_FORMAT) throw new ReceiptRefused(`this is no receipt of the form ${PROOF_FORMAT}`)
  const signed = hex('certificate', certificate, STATEMENT_BYTES)
  const signer = decodeBase58(String(tee_pubkey), 32)
  if (signer === undefined) throw malformed('tee_pubkey')
  if (!(await isSignedByEd25519(hex('signature', certificate_signature, 64), signed, signer)))
    throw new ReceiptRefused('the statement key is not certified by the settlement key')
  const identity = STATEMENT_BODY.decode(signed)
  await verifyReceipt(receipt, identity, hex('command', command, Math.floor(String(command).length / 2)))
  return identity
}

/**
 * The same without evidence of that time: the settlement key is the one that the vault took with a quote for the receipt's epoch.
 * Whether the certificate's venue is this vault is the caller's to compare.
 * @param epoch_keys of the history that `readVaultHistory` reads
 * @throws ReceiptRefused
 */
export async function verifyReceiptOnChain(
  proof: ReceiptProof,
  epoch_keys: ReadonlyMap<number, Uint8Array>,
): Promise<VenueIdentity> {
  const identity = await verifyReceiptProof(proof)
  const key = epoch_keys.get(Number(identity.epoch))
  if (key === undefined) throw new ReceiptRefused(`the chain shows no quote of epoch ${identity.epoch}`)
  if (!equalBytes(key, decodeBase58(proof.tee_pubkey, 32)!))
    throw new ReceiptRefused(`the vault took another settlement key in epoch ${identity.epoch}`)
  return identity
}

/**
 * Verifies that the venue, in this epoch, has signed that `command` is in its journal. Runs in Bun, Node and browsers.
 * @param command canonical body and signature, as `commandBytes` encodes them
 * @param after_seq journal seq of a receipt that arrived before the command was first sent: this one must be later
 * @throws ReceiptRefused naming the first check that fails: form, epoch, signature, membership, seq
 */
export async function verifyReceipt(
  receipt: Receipt,
  identity: VenueIdentity,
  command: Uint8Array,
  after_seq = 0,
): Promise<void> {
  const { head, root, path, signature } = readReceipt(receipt)
  const { epoch, seq, index } = receipt
  const { venue, statement_key } = identity
  if (epoch === 0) throw new ReceiptRefused('epoch 0 is of no node that leads')
  if (BigInt(epoch) !== identity.epoch)
    throw new ReceiptRefused(`the receipt is of epoch ${epoch}, not ${identity.epoch}`)
  // The venue id is signed and not sent, so another venue's receipt fails here too.
  const body = RECEIPT_BODY.encode({ venue, epoch: BigInt(epoch), seq: BigInt(seq), head, root })
  if (!(await isSignedByEd25519(signature, body, statement_key)))
    throw new ReceiptRefused('the receipt is not signed by the statement key of this venue')
  if (!isInReceipt(treeLeaf(command), index, path, root))
    throw new ReceiptRefused('the command is not in the group of the receipt')
  if (seq <= after_seq)
    throw new ReceiptRefused(`the receipt is of journal seq ${seq}, not after ${after_seq}`)
}

type ReceiptBytes = { head: Uint8Array; root: Uint8Array; path: Uint8Array[]; signature: Uint8Array }

/** @throws ReceiptRefused for a field of another form; the longest path bounds the work of the membership check */
function readReceipt(receipt: Receipt): ReceiptBytes {
  const { epoch, seq, index, head, root, path, signature } = Object(receipt) as Receipt
  for (const [name, value] of Object.entries({ epoch, seq, index }))
    if (!Number.isSafeInteger(value) || value < 0) throw malformed(name)
  if (index >= 2 ** RECEIPT_PATH_MAX) throw malformed('index')
  if (!Array.isArray(path) || path.length > RECEIPT_PATH_MAX) throw malformed('path')
  return {
    head: hex('head', head, 32),
    root: hex('root', root, 32),
    path: Array.from(path, (node) => hex('path', node, 32)),
    signature: hex('signature', signature, 64),
  }
}

function hex(name: string, value: unknown, width: number): Uint8Array {
  const bytes = typeof value === 'string' ? fromHex(value, width) : undefined
  if (bytes === undefined) throw malformed(name)
  return bytes
}

const malformed = (field: string): ReceiptRefused =>
  new ReceiptRefused(`the receipt has no well formed ${field}`)

/** Verifies market statistics: rows that name each other by hash, the newest signed by the venue. Bun, Node and browsers. */

/** The rows are not those of a venue that never rewrote one; the message names the first fault. */
export class StatisticsRefused extends Refused {
  override readonly name = 'StatisticsRefused'
  override readonly code = 'statistics_refused'
}

const FIRST = '00'.repeat(32)
/** The last second that a date expresses (ECMA-262, time values). */
const START_MAX_S = 8_640_000_000_000
const FIGURES = ['open', 'high', 'low', 'close', 'volume'] as const

/**
 * Verifies one page. Rows are unbroken from `before`, so who verifies page after page and keeps the last row knows that no
 * earlier one has been rewritten since.
 * @param before the last row verified so far; undefined for the first page
 * @returns the rows of the page
 * @throws StatisticsRefused naming the first check that fails: form, place, chain, hash, signature
 */
export async function verifyStatistics(
  page: Statistics,
  asked: { symbol: string; period: StatisticsPeriod },
  { venue, statement_key }: Pick<VenueIdentity, 'venue' | 'statement_key'>,
  before?: StatisticsRow,
): Promise<StatisticsRow[]> {
  const { items, period, signed, symbol } = Object(page) as Statistics
  if (symbol !== asked.symbol || period !== asked.period || !Array.isArray(items))
    throw new StatisticsRefused('the page is of another instrument or period')
  let last = before
  for (const row of items) {
    checkForm(row)
    const at = new Date(row.start_unix_s * 1_000).toISOString()
    const expected_s = last === undefined ? row.start_unix_s : last.start_unix_s + PERIOD_S[period]
    if (row.start_unix_s !== expected_s || row.start_unix_s % PERIOD_S[period] !== 0)
      throw new StatisticsRefused(`a row is missing before ${at}`)
    if (row.previous !== (last?.hash ?? FIRST))
      throw new StatisticsRefused(`the row of ${at} follows another history: an earlier row was rewritten`)
    if (sealStatisticsRow(venue, symbol, period, row).hash !== row.hash)
      throw new StatisticsRefused(`the row of ${at} is not the one of its hash`)
    last = row
  }
  const newest = items.at(-1)
  if (newest === undefined) return []
  const signature = fromHex(String(signed?.signature), 64)
  const body = statisticsRowBody(venue, symbol, period, newest)
  if (signature === undefined || !(await isSignedByEd25519(signature, body, statement_key)))
    throw new StatisticsRefused('the rows are not signed by the statement key of this venue')
  return items
}

function checkForm(row: StatisticsRow): void {
  if (typeof row !== 'object' || row === null) throw new StatisticsRefused('a row has another form')
  const { auctions, hash, previous, start_unix_s } = row
  const withheld = auctions === null
  const numbers = FIGURES.every((name) =>
    withheld ? row[name] === null : typeof row[name] === 'string' && parseU64(row[name]) !== undefined,
  )
  const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0
  const counts = isCount(start_unix_s) && start_unix_s <= START_MAX_S && (withheld || isCount(auctions))
  const hashes = [hash, previous].every((text) => fromHex(String(text), 32) !== undefined)
  if (!numbers || !counts || !hashes) throw new StatisticsRefused('a row has another form')
}

/** False for every key or signature that the rule rejects, of any width. @throws where the platform has no Ed25519 */
export async function isSignedByEd25519(
  signature: Uint8Array,
  message: Uint8Array,
  public_key: Uint8Array,
): Promise<boolean> {
  if (!passesStrictRule(signature, public_key)) return false
  const raw = new Uint8Array(public_key)
  const key = await crypto.subtle.importKey('raw', raw, { name: 'Ed25519' }, false, ['verify'])
  return crypto.subtle.verify({ name: 'Ed25519' }, key, new Uint8Array(signature), new Uint8Array(message))
}
