/** `tacit audit-batch`: the auditor's own check of one exported batch. It needs no key of the venue. */
import { existsSync, statSync } from 'node:fs'
import { newAgeKey, readAgeIdentity } from '../../protocol/age'
import { decodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { type AttestedVenue, auditBatch, type BatchAudit } from '../audit/audit_batch'
import { parseBundle } from '../verify/evidence_bundle'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY, parsePolicy } from '../verify/policy'
import { Refused, transcriptText } from '../verify/transcript'
import { identityOf } from '../verify/verify_receipt'
import { writeNew } from '../whole_file'
import type { Call, Verb } from './call'
import { readInput, readInputText, UsageFault } from './command'

export const AUDIT_BATCH: Verb = {
  form: '[FILE] [--key KEYFILE] [--offline BUNDLE] [--policy FILE] [--new-key KEYFILE]',
  says: `decrypts a batch that a venue exported to its auditor, holds its auction again and compares: 0 it is what the attested venue
  recorded, 1 it is not, 2 it agrees but is not attested. BUNDLE is evidence of the venue ('tacit verify --bundle'): without it
  nothing shows whose export it is. --new-key, alone, makes an auditor's key and prints its public half, the
  TACIT_AUDITOR_KEY of a venue`,
  example: 'tacit audit-batch batch.age --key auditor.key --offline evidence.json --policy policy.json',
  run: auditExport,
}

/** @throws UsageFault, Refused */
async function auditExport(call: Call): Promise<number> {
  const [path] = call.words
  const new_key = call.optional('new-key')
  if ((path === undefined) === (new_key === undefined)) throw new UsageFault()
  if (path === undefined) return await makeKey(new_key!)
  const file = readInput(path)
  const identity = readKey(call.text('key'))
  const judged = await judgeBundle(call)
  if (judged !== undefined && 'text' in judged) {
    console.error(`the evidence does not attest the venue:\n${judged.text}`)
    return 1
  }
  try {
    console.log(JSON.stringify(report(await auditBatch(file, identity, judged), judged), null, 2))
    return judged === undefined ? 2 : 0
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    console.error(error.message)
    return 1
  }
}

/** An existing key is never overwritten: exports to it could not be read any more. */
async function makeKey(path: string): Promise<number> {
  if (existsSync(path)) throw new Refused(`${path} exists: a key is never overwritten`)
  const { file, recipient } = await newAgeKey()
  writeNew(path, file, 0o600)
  console.log(JSON.stringify({ auditor_key: recipient }, null, 2))
  return 0
}

function readKey(path: string): string {
  // Not by its content, and the path may be a secret that was typed in its place.
  const called = 'the file of --key'
  const text = new TextDecoder().decode(readInput(path, called))
  if ((statSync(path).mode & 0o077) !== 0) throw new Refused(`${called} can be read by others: chmod 600 it`)
  const identity = readAgeIdentity(text)
  if (identity === undefined) throw new Refused(`${called} holds no age identity`)
  return identity
}

/** The venue that the evidence attests, or the transcript of evidence that attests none; undefined without a bundle. */
async function judgeBundle(call: Call): Promise<AttestedVenue | { text: string } | undefined> {
  const path = call.optional('offline')
  const policy = call.file('policy')
  if (path === undefined) {
    if (policy !== undefined) throw new UsageFault('--policy judges the evidence of --offline')
    return undefined
  }
  const evidence = parseBundle(readInputText(path))
  const transcript = await judgeEvidence(
    evidence,
    policy === undefined ? BARE_POLICY : parsePolicy(policy),
    'recorded',
  )
  if (transcript.verdict !== 'verified' && transcript.verdict !== 'partial')
    return { text: transcriptText(transcript) }
  const { venue } = identityOf(evidence)
  return { venue, tee_pubkey: decodeBase58(evidence.attestation.tee_pubkey, 32)! }
}

function report({ exported, recomputed, signer }: BatchAudit, attested: AttestedVenue | undefined) {
  const { symbol, batch, slot, close_seq, close_head, reference_ticks, orders, result_hash } = exported
  const { collar_bps, price_rule, volume_tolerance_bps } = exported
  return {
    symbol,
    batch,
    slot,
    close_seq,
    close_head: toHex(close_head),
    reference_ticks,
    collar_bps,
    price_rule,
    volume_tolerance_bps,
    orders: orders.length,
    price_ticks: recomputed.price_ticks,
    volume_lots: recomputed.volume_lots,
    fills: recomputed.fills.length,
    cancelled: recomputed.cancelled.length,
    result_hash: toHex(result_hash),
    venue: toHex(signer.venue),
    epoch: Number(signer.epoch),
    agrees: true,
    attested: attested !== undefined,
  }
}
