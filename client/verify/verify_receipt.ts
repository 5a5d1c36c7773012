/** Verifies receipts: the venue's signed statement that a command is in its journal (engine.md "Receipts"). */
import { decodeBase58 } from '../../protocol/base58'
import {
  RECEIPT_BODY,
  STATEMENT_BODY,
  STATEMENT_BYTES,
  type StatementBody,
} from '../../protocol/bodies/statements'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { RECEIPT_PATH_MAX } from '../../protocol/limits'
import { isInReceipt, treeLeaf } from '../../protocol/rfc6962_tree'
import type { Attestation } from '../../protocol/wire/public'
import type { Receipt } from '../../protocol/wire/trading'
import { isSignedByEd25519 } from './ed25519_web'
import { Refused, requireThat } from './transcript'

/** The receipt does not prove the command; the message names the reason. */
export class ReceiptRefused extends Refused {
  override readonly name = 'ReceiptRefused'
  override readonly code = 'receipt_refused'
}

/** What certifies a statement key: the settlement key's signature. Hex; `tee_pubkey` base58. */
export type StatementCertificate = Pick<Attestation['binding'], 'certificate' | 'certificate_signature'> &
  Pick<Attestation, 'tee_pubkey'>

/** All that proves a receipt to anyone who accepts the settlement key. */
export type ReceiptProof = StatementCertificate & {
  format: typeof PROOF_FORMAT
  /** What was sent, as `commandBytes` encodes it, hex. */
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

/** A verified venue or an accepted bundle, which beside a node that follows has the one that leads. */
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
 * Verifies a receipt with its certificate, as evidence for someone who was not there. Which venue the settlement key belongs
 * to is the caller's to compare: with a verified venue, or with accepted evidence of that time.
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
