/** `tacit verify-quote`, `verify-eventlog` and `auction`: judge a file, without a venue. Each prints JSON. */
import { equalBytes, fromAnyHex, toHex } from '../../protocol/bytes'
import { type BootEvent, measuredClaims, parseEventLog, replayRegisters } from '../../protocol/tdx/event_log'
import { judgeMrConfigId } from '../../protocol/tdx/mr_config_id'
import { parseQuote } from '../../protocol/tdx/quote'
import { answerCase, readCases } from '../audit/auction_cases'
import { parseJson } from '../verify/json_document'
import { BARE_POLICY, parsePolicy } from '../verify/policy'
import { onlyIntel, openCollateral, parseCollateral, trustedRoots } from '../verify/tdx/collateral'
import { describePlatform, verifyUnderCollateral } from '../verify/tdx/genuine_quote'
import { Refused, reasonOf, requireThat } from '../verify/transcript'
import type { Call, Verb } from './call'
import { readInput, readInputText } from './command'

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
  if (quote === undefined || quote.length === 0) throw new Refused('the file holds no quote')
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
  if (typeof quote !== 'string') throw new Refused('the file holds no quote')
  return quote
}
