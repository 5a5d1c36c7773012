/** `tacit receipt prove` and `receipt verify`: the venue's signed statement that it journaled a request, as evidence for others. */
import { existsSync } from 'node:fs'
import { toHex } from '../../protocol/bytes'
import { parseBundle } from '../verify/evidence_bundle'
import { parseJson } from '../verify/json_document'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY } from '../verify/policy'
import { isAccepted, transcriptText } from '../verify/transcript'
import { identityOf, type ReceiptProof, verifyReceiptProof } from '../verify/verify_receipt'
import { ReceiptFile } from '../wallet/receipt_file'
import { writeWhole } from '../whole_file'
import type { Call, Verb } from './call'
import { InputFault, readInputText } from './command'

function prove(call: Call): void {
  const [id, out] = [call.words[0]!, call.text('out')]
  if (existsSync(out)) throw new InputFault(`${out} exists: name another`)
  const receipts = new ReceiptFile(call.text('wallet'), call.wallet().seed)
  const kept = receipts.find(id)
  if (kept === undefined) throw new InputFault('the wallet keeps no receipt of this order or request')
  const proof = receipts.proofOf(kept)
  if (proof === undefined)
    throw new InputFault('the certificate of the epoch of this receipt is not kept any more')
  writeWhole(out, `${JSON.stringify(proof, null, 2)}\n`, 0o644)
  call.say('proof', out, `${out}: 'tacit receipt verify' judges it anywhere`)
  call.say('seq', kept.receipt.seq)
}

/** The attested keys: of kept evidence, or of the venue itself. Undefined where neither is named. */
async function attested(call: Call) {
  const path = call.optional('offline')
  if (path === undefined)
    return call.optional('url') === undefined ? undefined : (await call.venue()).evidence
  const evidence = parseBundle(readInputText(path))
  const transcript = await judgeEvidence(evidence, call.policy() ?? BARE_POLICY, 'recorded')
  if (isAccepted(transcript)) return evidence
  throw new InputFault(`the evidence does not attest the venue:\n${transcriptText(transcript)}`)
}

async function verify(call: Call): Promise<number> {
  const proof = parseJson(readInputText(call.words[0]!)) as ReceiptProof
  const { venue, epoch } = await verifyReceiptProof(proof)
  const evidence = await attested(call)
  const { receipt, tee_pubkey } = proof
  call.say(
    'receipt',
    receipt.seq,
    `journal seq ${receipt.seq} of epoch ${epoch}: the command is in the journal`,
  )
  call.say('venue', toHex(venue))
  call.say('signer', tee_pubkey)
  if (evidence === undefined) {
    call.say('attested', false, 'no: name the evidence of the venue (--offline), or the venue (--url)')
    return 2
  }
  const shown = identityOf(evidence)
  const is_venue = toHex(shown.venue) === toHex(venue)
  const is_same = is_venue && evidence.attestation.tee_pubkey === tee_pubkey
  // A venue makes another settlement key at each start.
  const other = is_venue
    ? `not shown: the evidence is of epoch ${shown.epoch}; name evidence of epoch ${epoch}`
    : 'no: the evidence is of another venue'
  call.say('attested', is_same, is_same ? 'by the accepted evidence' : other)
  return is_same ? 0 : is_venue ? 2 : 1
}

export const RECEIPT_VERBS: Readonly<Record<string, Verb>> = {
  'receipt prove': {
    form: 'ID --out FILE',
    reads: ['wallet'],
    says: 'writes the kept receipt of an order or request with all that proves it to someone else; it names the command',
    example: 'tacit receipt prove ORDER --out receipt.json --wallet wallet.json',
    run: prove,
  },
  'receipt verify': {
    form: 'FILE [--offline BUNDLE]',
    reads: ['venue'],
    says: `verifies such a proof, and that its signer is the attested venue, by kept evidence or by the venue of the settings: 0 it is,
  1 it is not, 2 the proof holds and nothing shows whose it is`,
    example: 'tacit receipt verify receipt.json',
    run: verify,
  },
}
