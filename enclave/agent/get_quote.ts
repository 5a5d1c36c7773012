/** `/GetQuote`: a hardware quote over 64 bytes. The only place that asks for one: whoever can quote can impersonate. */
import { fromAnyHex } from '../../protocol/any_hex'
import { equalBytes, toHex } from '../../protocol/bytes'
import { MalformedQuote, parseQuote, type Quote } from '../../protocol/quote'
import { AgentFailure, callAgent } from './call_agent'

export type AgentQuote = {
  /** Hex, as the agent gave it. */
  quote: string
  /** The agent's strings, unchanged, so that they can be posted to dstack-verifier. */
  event_log: string
  vm_config: string
  /** 128 hex digits. */
  report_data: string
  parsed: Quote
}

/** @throws AgentFailure, also when the quote is not over exactly `report_data` (64 bytes). */
export async function getQuote(
  socket: string,
  report_data: Uint8Array,
  time_limit_ms: number,
): Promise<AgentQuote> {
  if (report_data.length !== 64) throw new RangeError('expected 64 bytes')
  const requested = toHex(report_data)
  const answer = await callAgent(socket, 'GetQuote', { report_data: requested }, time_limit_ms)
  const { quote, event_log, vm_config } = answer
  if (typeof quote !== 'string' || typeof event_log !== 'string' || typeof vm_config !== 'string') {
    throw new AgentFailure('GetQuote', 'shape')
  }
  const parsed = parse(quote)
  if (!equalBytes(parsed.report.report_data, report_data)) throw new AgentFailure('GetQuote', 'shape')
  return { quote, event_log, vm_config, report_data: requested, parsed }
}

function parse(quote: string): Quote {
  const bytes = fromAnyHex(quote)
  if (bytes === undefined) throw new AgentFailure('GetQuote', 'shape')
  try {
    return parseQuote(bytes)
  } catch (error) {
    if (error instanceof MalformedQuote) throw new AgentFailure('GetQuote', 'shape', `, ${error.message}`)
    throw error
  }
}
