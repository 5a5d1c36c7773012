/** `tacit receipt` and `tacit statistics`: verifies and keeps the venue's signed receipts and market statistics. */

import { existsSync } from 'node:fs'
import { PERIOD_S } from '../../protocol/bodies/statements'
import { toHex } from '../../protocol/bytes'
import type { StatisticsPeriod, StatisticsRow } from '../../protocol/wire/public'
import { leadingOf, parseBundle } from '../verify/evidence_bundle'
import { parseJson } from '../verify/json_document'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY } from '../verify/policy'
import { isAccepted, transcriptText } from '../verify/transcript'
import {
  identityOf,
  type ReceiptProof,
  StatisticsRefused,
  verifyReceiptProof,
  verifyStatistics,
} from '../verify/verify_receipt'
import { ReceiptFile } from '../wallet/receipt_file'
import { writeWhole } from '../whole_file'
import type { Call, Verb } from './call'
import { InputFault, readInputText, timeOf, UsageFault } from './command'

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
  const is_same = is_venue && leadingOf(evidence).attestation.tee_pubkey === tee_pubkey
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

const PAGE = 500

export const STATISTICS: Verb = {
  form: '[URL] SYMBOL [--period hour|day] [--history FILE]',
  reads: ['venue', 'login'],
  says: `prints the published rows of an instrument as CSV, verified: unbroken from the first, the newest signed. FILE keeps them; a
  venue that later shows another row for the same time is refused`,
  example: 'tacit statistics SOL-USDC --history hours.json',
  run: statistics,
}

async function statistics(call: Call): Promise<void> {
  const symbol = call.words.at(-1)!
  const period = call.text('period', 'hour') as StatisticsPeriod
  if (symbol.includes('://')) throw new UsageFault()
  if (!Object.hasOwn(PERIOD_S, period)) throw new UsageFault('--period is hour or day')
  const path = call.optional('history')
  const asked = { symbol, period }
  const venue = await call.venue()
  const client = call.client(venue)
  const rows: StatisticsRow[] = []
  for (let after: number | null = 0; after !== null; ) {
    const page = await client.statistics(symbol, { period, after, limit: PAGE })
    rows.push(...(await verifyStatistics(page, asked, identityOf(venue), rows.at(-1))))
    after = page.next_after
  }
  if (path !== undefined) keep(path, asked, rows)
  call.print(rows, () => [
    'start,open,high,low,close,volume,auctions',
    ...rows.map(({ start_unix_s, open, high, low, close, volume, auctions }) => {
      const figures = [open, high, low, close, volume, auctions].map((one) => one ?? '')
      return [timeOf(start_unix_s), ...figures].join(',')
    }),
  ])
}

type Kept = { symbol: string; period: string; rows: StatisticsRow[] }

/** @throws StatisticsRefused when a row seen before is another or gone */
function keep(path: string, asked: Omit<Kept, 'rows'>, rows: StatisticsRow[]): void {
  if (existsSync(path)) {
    const kept = Object(parsed(path)) as Kept
    if (kept.symbol !== asked.symbol || kept.period !== asked.period || !Array.isArray(kept.rows))
      throw new InputFault(`${path} holds no rows of ${asked.symbol} by ${asked.period}`)
    for (const [at, { hash, start_unix_s }] of kept.rows.entries()) {
      if (rows[at]?.hash === hash && rows[at].start_unix_s === start_unix_s) continue
      const time = timeOf(start_unix_s)
      throw new StatisticsRefused(
        `the venue rewrote its history: the row of ${time} was signed as another before (${path})`,
      )
    }
  }
  writeWhole(path, `${JSON.stringify({ ...asked, rows })}\n`, 0o644)
}

function parsed(path: string): unknown {
  try {
    return JSON.parse(readInputText(path))
  } catch (error) {
    if (error instanceof SyntaxError) throw new InputFault(`${path} is no history of statistics`)
    throw error
  }
}
