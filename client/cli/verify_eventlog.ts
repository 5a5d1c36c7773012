/**
 * Runs `bun run verify-eventlog FILE`: replays the event log of a GetQuote or `/attestation` answer, compares it with the
 * registers of its quote and prints the machine's claims. `verify-quote` judges the quote itself. For a file with an event
 * log alone it prints the registers.
 * Prints one JSON verdict. Exit code: 0 accept, 1 reject, 64 usage.
 */
import { equalBytes, toHex } from '../../protocol/bytes'
import { type BootEvent, measuredClaims, parseEventLog, replayRegisters } from '../../protocol/tdx/event_log'
import { judgeMrConfigId } from '../../protocol/tdx/mr_config_id'
import { parseQuote } from '../../protocol/tdx/quote'
import { quoteOfFile } from '../verify/read_quote_file'
import { Refused, reasonOf, requireThat } from '../verify/transcript'
import { readInputText, runCommand, UsageFault } from './command'

function verdict(path: string): Record<string, unknown> {
  const text = readInputText(path)
  const file = parse(text)
  const log = Array.isArray(file) ? text : (file as { event_log?: unknown } | null)?.event_log
  const events = parseEventLog(typeof log === 'string' ? log : JSON.stringify(log ?? null))
  const registers = replayRegisters(events)
  const claims = readClaims(events)
  const described = { events: events.length, rtmr: registers.map(toHex), ...claims }
  if (Array.isArray(file))
    return accept('the event log is well formed; there is no quote to compare', described)
  const { report } = parseQuote(quoteOfFile(new TextEncoder().encode(text)))
  for (const [index, register] of registers.entries())
    requireThat(equalBytes(register, report.rtmr[index]!), `the event log does not lead to RTMR${index}`)
  const mr_config_id = judgeMrConfigId(report.mr_config_id, measuredClaims(events))
  requireThat(mr_config_id !== 'malformed', 'MRCONFIGID has an unknown form or padding')
  requireThat(mr_config_id !== 'other', 'MRCONFIGID commits to other facts than the measured ones')
  const reason = 'the event log leads to the four registers of the quote'
  return accept(reason, { ...described, mr_config_id })
}

const accept = (reason: string, more: object) => ({ verdict: 'accept', reason, ...more })

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

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused('the file is not JSON')
  }
}

const USAGE = `usage: bun run verify-eventlog FILE
FILE is an answer of GetQuote or /attestation, or an event log alone.
exit code: 0 accept, 1 reject, 64 usage`
await runCommand(USAGE, ([path, surplus]) => {
  if (path === undefined || path.startsWith('-') || surplus !== undefined) throw new UsageFault()
  let answer: Record<string, unknown>
  try {
    answer = verdict(path)
  } catch (error) {
    answer = { verdict: 'reject', reason: reasonOf(error) }
  }
  console.log(JSON.stringify(answer))
  return answer['verdict'] === 'accept'
})
