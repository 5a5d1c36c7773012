/** Check 2.1: replaying the event log gives all four runtime registers of the quote. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { parseEventLog, replayRegisters } from '../../../protocol/event_log'
import { requireThat } from '../refused'
import { established, type RunCheck } from './verification_case'

export const checkRegisters: RunCheck = (verification) => {
  const { rtmr } = established(verification, 'genuine').quote.report
  const events = parseEventLog(verification.bundle.attestation.event_log)
  for (const [index, register] of replayRegisters(events).entries())
    requireThat(equalBytes(register, rtmr[index]!), `the event log does not lead to RTMR${index}`)
  verification.established.events = events
  return { events: String(events.length), rtmr3: toHex(rtmr[3]) }
}
