/** The commands of an auditor: archive, roots, queue and batches of a vault; and judgements of files, without a venue. */

import { existsSync, statSync } from 'node:fs'
import { newAgeKey, readAgeIdentity } from '../../protocol/age'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, fromAnyHex, toHex } from '../../protocol/bytes'
import { type BootEvent, measuredClaims, parseEventLog, replayRegisters } from '../../protocol/tdx/event_log'
import { judgeMrConfigId } from '../../protocol/tdx/mr_config_id'
import { parseQuote } from '../../protocol/tdx/quote'
import { ArchiveRejected } from '../archive/archive'
import { type AttestedVenue, answerCase, auditBatch, type BatchAudit, readCases } from '../audit/audit_batch'
import { auditChain, type ChainAudit, type QueueAudit, type RootAudit } from '../audit/chain_audit'
import { currentHistory, NodesDisagree, newest, readEventsFrom } from '../chain/current_history'
import { NotAVault } from '../chain/read_vault'
import { leadingOf, parseBundle } from '../verify/evidence_bundle'
import { parseJson } from '../verify/json_document'
import { judgeEvidence } from '../verify/judge_evidence'
import { BARE_POLICY, parsePolicy } from '../verify/policy'
import { onlyIntel, openCollateral, parseCollateral, trustedRoots } from '../verify/tdx/collateral'
import { describePlatform, verifyUnderCollateral } from '../verify/tdx/genuine_quote'
import { Refused, reasonOf, requireThat, transcriptText } from '../verify/transcript'
import { identityOf } from '../verify/verify_receipt'
import { HistoryIncomplete } from '../wallet/vault_history'
import { writeNew } from '../whole_file'
import type { Call, Verb } from './call'
import { readInput, readInputText, timeOf, UsageFault } from './command'
import { lockPath } from './config'
import { ARCHIVED, reporting, sayHistory } from './wallet_commands'

const EXIT = { agrees: 0, differs: 1, incomplete: 2 } as const

async function audit(call: Call): Promise<number> {
  const [chain, archive] = [call.reader(), call.optional('archive')]
  const from = archive === undefined ? {} : { archive }
  const { events, vaults } = await readEventsFrom(chain, call.program(), from, reporting())
  const found = auditChain(events, newest(vaults))
  call.print(printed(found), () => report(found))
  if (vaults.some((vault) => auditChain(events, vault).verdict !== found.verdict))
    throw new NodesDisagree('the nodes show vaults of different histories')
  return EXIT[found.verdict]
}

/** The nodes' answers are no history of one vault: neither an agreement nor a difference. */
function unread(error: unknown): number {
  if (error instanceof HistoryIncomplete) return EXIT.incomplete
  if ([NotAVault, ArchiveRejected, NodesDisagree].some((kind) => error instanceof kind)) return 3
  throw error
}

export const AUDIT_CHAIN: Verb = {
  form: ARCHIVED,
  reads: ['chain'],
  says: `rebuilds note tree, spent log and payout queue of a vault from public events and compares them with its accounts: 0 they
  agree, 1 they differ, 2 the history is incomplete. Without --archive the node must keep the whole history. Its answer is as
  true as the node: ask one of your own, or several`,
  example: 'tacit audit-chain',
  run: (call) =>
    audit(call).catch((error: unknown) => {
      const code = unread(error)
      console.error((error as Error).message)
      return code
    }),
}

const SLOT_S = 0.4
const YEAR_S = 31_557_600

function report({ slot, note_tree, spent_log, queue, open_exits, verdict }: ChainAudit): string[] {
  const lines = [`accounts     finalized slot ${slot}`]
  const findings = ({ faults, missing }: QueueAudit | RootAudit): void => {
    if (missing !== undefined) lines.push(`  missing    ${missing}: ask a node that keeps the whole history`)
    lines.push(...faults.map((fault) => `  fault      ${fault}`))
  }
  const tree = (name: string, what: string, audit: RootAudit): void => {
    const { count, expected, found, slots_left } = audit
    lines.push(`${name}${count} ${what}`, `  account    ${toHex(expected)}`)
    lines.push(`  recomputed ${found === undefined ? 'not possible' : toHex(found)}`)
    if (slots_left !== undefined) {
      const years = Math.floor((slots_left * SLOT_S) / YEAR_S).toLocaleString('en')
      lines.push(`  full in    ${years} years at the present rate`)
    }
    findings(audit)
  }
  tree('note tree    ', 'leaves', note_tree)
  tree('spent log    ', 'batches', spent_log)
  const oldest = queue.oldest_slot === undefined ? '' : `, the oldest since slot ${queue.oldest_slot}`
  lines.push(`queue        ${queue.length} of ${queue.capacity} entries${oldest}`)
  findings(queue)
  lines.push(`exits        ${open_exits.length} requests neither served nor refused`)
  for (const [nullifier, { mint, amount, deadline_s }] of open_exits)
    lines.push(`  ${nullifier}  ${amount} of ${encodeBase58(mint)}, deadline ${timeOf(deadline_s!)}`)
  lines.push(`verdict      ${verdict}`)
  return lines
}

function printed({ note_tree, spent_log, open_exits, ...rest }: ChainAudit): object {
  const one = ({ expected, found, ...others }: RootAudit) => ({
    ...others,
    expected: toHex(expected),
    found: found && toHex(found),
  })
  const exits = open_exits.map(([nullifier, { mint, amount, deadline_s }]) => {
    return { nullifier, mint: encodeBase58(mint), amount: String(amount), deadline_s }
  })
  return { ...rest, note_tree: one(note_tree), spent_log: one(spent_log), open_exits: exits }
}

export const ARCHIVE: Verb = {
  form: '--out FOLDER',
  reads: ['chain'],
  says: `writes every event of a vault, or those since the last time, and checks both trees against the vault; the files
  may be mirrored as they are: wallet recover, wallet sync, exit and audit-chain take --archive FOLDER|URL`,
  example: 'tacit archive --out archive',
  async run(call) {
    const from = { folder: call.text('out') }
    lockPath(from.folder)
    const current = await currentHistory(call.reader(), call.program(), from, reporting())
    sayHistory(call, 'archive', current)
  },
}

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
    console.log(JSON.stringify(batchReport(await auditBatch(file, identity, judged), judged), null, 2))
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
  return { venue, tee_pubkey: decodeBase58(leadingOf(evidence).attestation.tee_pubkey, 32)! }
}

function batchReport({ exported, recomputed, signer }: BatchAudit, attested: AttestedVenue | undefined) {
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

type Finding = Record<string, unknown>

/** Prints the finding or the reason why there is none. @returns the exit code */
async function verdict(find: () => Finding | Promise<Finding>): Promise<number> {
  try {
    console.log(JSON.stringify({ verdict: 'accept', ...(await find()) }))
    return 0
  } catch (error) {
    console.log(JSON.stringify({ verdict: 'reject', reason: reasonOf(error) }))
    return 1
  }
}

async function judgeQuote(call: Call): Promise<Finding> {
  const now = call.optional('now')
  const now_ms = now === undefined ? Date.now() : Date.parse(now)
  if (Number.isNaN(now_ms)) throw new Refused('the time is malformed')
  const given = call.file('policy')
  const policy = given === undefined ? BARE_POLICY : parsePolicy(given)
  const roots = trustedRoots(call.file('root') ?? policy.roots_pem)
  const collateral = await openCollateral(parseCollateral(call.file('collateral')!), roots, now_ms)
  const bytes = quoteOfFile(readInput(call.text('quote')))
  const verified = await verifyUnderCollateral(bytes, collateral, policy, now_ms)
  const { report } = verified.quote
  return {
    reason: 'the quote is genuine and its platform is as the policy asks',
    judged_at: new Date(now_ms).toISOString(),
    intel_root: onlyIntel(roots),
    ...describePlatform(verified, verified.finding, collateral),
    mr_td: toHex(report.mr_td),
    mr_config_id: toHex(report.mr_config_id),
    rtmr: report.rtmr.map(toHex),
    report_data: toHex(report.report_data),
  }
}

/** Replays the log of a GetQuote or `/attestation` answer; of a file with a log alone it gives the registers. */
function judgeEventLog(path: string): Finding {
  const text = readInputText(path)
  const file = parsed(text)
  const log = Array.isArray(file) ? text : (file as { event_log?: unknown } | null)?.event_log
  const events = parseEventLog(typeof log === 'string' ? log : JSON.stringify(log ?? null))
  const registers = replayRegisters(events)
  const described = { events: events.length, rtmr: registers.map(toHex), ...readClaims(events) }
  if (Array.isArray(file))
    return { reason: 'the event log is well formed; there is no quote to compare', ...described }
  const { report } = parseQuote(quoteOfFile(new TextEncoder().encode(text)))
  for (const [index, register] of registers.entries())
    requireThat(equalBytes(register, report.rtmr[index]!), `the event log does not lead to RTMR${index}`)
  const mr_config_id = judgeMrConfigId(report.mr_config_id, measuredClaims(events))
  requireThat(mr_config_id !== 'malformed', 'MRCONFIGID has an unknown form or padding')
  requireThat(mr_config_id !== 'other', 'MRCONFIGID commits to other facts than the measured ones')
  return { reason: 'the event log leads to the four registers of the quote', ...described, mr_config_id }
}

function readClaims(events: readonly BootEvent[]): Record<string, string> {
  const { app_id, compose_hash, instance_id, key_provider, os_image_hash } = measuredClaims(events)
  return {
    app_id: toHex(app_id),
    compose_hash: toHex(compose_hash),
    instance_id: toHex(instance_id),
    key_provider: new TextDecoder().decode(key_provider),
    ...(os_image_hash === undefined ? {} : { os_image_hash: toHex(os_image_hash) }),
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused('the file is not JSON')
  }
}

const ONE_CASE = `{"own": [{"id": "one", "config": {"ref": 100, "bandBps": 500, "rule": "std4", "slot": 9}, "orders": [
    {"id": "a", "side": "buy", "price": 101, "qty": "5", "arrivalBatch": 1, "expirySlot": 20, "ioc": false, "minFill": "0"},
    {"id": "b", "side": "sell", "price": 99, "qty": "3", "arrivalBatch": 1, "expirySlot": 20, "ioc": true, "minFill": "0"}]}]}`

export const FILE_JUDGES: Readonly<Record<string, Verb>> = {
  'verify-quote': {
    form: '--quote FILE --collateral FILE [--now ISO] [--root PEM] [--policy FILE]',
    says: `judges whether a TDX quote is genuine and its platform current. FILE of --quote: raw bytes, hex, or the answer of GetQuote
  or /attestation; of --collateral: JSON as dcap-qvl writes it; --now: the time at which periods are judged; --root replaces
  Intel's root, for development only`,
    example: 'tacit verify-quote --quote attestation.json --collateral collateral.json --policy policy.json',
    run(call) {
      for (const name of ['quote', 'collateral']) call.text(name)
      return verdict(() => judgeQuote(call))
    },
  },
  'verify-eventlog': {
    form: 'FILE',
    says: 'replays the event log of a GetQuote or /attestation answer and compares it with the registers of the quote',
    example: 'tacit verify-eventlog attestation.json',
    run: (call) => verdict(() => judgeEventLog(call.words[0]!)),
  },
  auction: {
    form: 'FILE',
    says: `answers every case of a JSON file with the venue's own matching code, one object a line: prices in ticks, quantities in
  lots (docs/design/matching.md "Auditing"), such as
  ${ONE_CASE}`,
    example: 'tacit auction cases.json',
    run(call) {
      for (const one of readCases(readInputText(call.words[0]!))) console.log(JSON.stringify(answerCase(one)))
    },
  },
}

const DECODER = new TextDecoder('utf-8', { fatal: true })

/** @throws Refused when the bytes are text of neither form. */
export function quoteOfFile(bytes: Uint8Array): Uint8Array {
  const text = textOf(bytes)
  if (text === undefined) return bytes
  const hex = text.startsWith('{') ? quoteMember(text) : text
  const quote = fromAnyHex(hex.replace(/^0x/, '').toLowerCase())
  if (quote === undefined || quote.length === 0) throw new Refused('the file has no quote')
  return quote
}

/** Undefined for bytes that are no text: a raw quote begins with control characters. */
function textOf(bytes: Uint8Array): string | undefined {
  try {
    const text = DECODER.decode(bytes).trim()
    return /^[\x20-\x7e\s]+$/.test(text) ? text : undefined
  } catch {
    return undefined
  }
}

function quoteMember(text: string): string {
  const { quote } = (parseJson(text) ?? {}) as { quote?: unknown }
  if (typeof quote !== 'string') throw new Refused('the file has no quote')
  return quote
}
