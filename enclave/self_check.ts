/** The boot self-check: does the venue's own quote say what a client will be told? A failure keeps it out of readiness. */
import { equalBytes, fromHex, toHex } from '../protocol/bytes'
import { MalformedEventLog, measuredClaims, parseEventLog, replayRegisters } from '../protocol/event_log'
import { readMrConfigId } from '../protocol/mr_config_id'
import { attestationReportData } from '../protocol/report_data'
import { sha256 } from '../protocol/sha256'
import type { AgentInfo } from './agent/get_info'
import type { AgentQuote } from './agent/get_quote'

/** Bit 0 of the TD attributes: the host can read the machine's memory. */
const TD_DEBUG = 1

/** Reasons why the venue must not serve; empty when it may. `own` is the quote without a caller's nonce. */
export function selfCheck(own: AgentQuote, info: AgentInfo, tee_pubkey: Uint8Array): string[] {
  const { report } = own.parsed
  const reasons: string[] = []
  const must = (holds: boolean, reason: string) => {
    if (!holds) reasons.push(reason)
  }
  must((report.td_attributes[0]! & TD_DEBUG) === 0, 'the machine runs in debug mode')
  const expected = attestationReportData(new Uint8Array(32), tee_pubkey)
  must(equalBytes(report.report_data, expected), 'report_data does not bind tee_pubkey')

  const compose_hash = sha256(info.app_compose)
  must(toHex(compose_hash) === info.compose_hash, 'the compose hash is not the hash of the manifest')
  const config = readMrConfigId(report.mr_config_id)
  if (config.form === 'compose_hash') {
    must(equalBytes(config.compose_hash, compose_hash), 'MRCONFIGID commits to another manifest')
  }
  reasons.push(...checkEventLog(own, info, compose_hash))
  return reasons
}

function checkEventLog(own: AgentQuote, info: AgentInfo, compose_hash: Uint8Array): string[] {
  try {
    const events = parseEventLog(own.event_log)
    const registers = replayRegisters(events)
    const wrong = registers.flatMap((register, index) =>
      equalBytes(register, own.parsed.report.rtmr[index]!)
        ? []
        : [`the event log does not replay to RTMR${index}`],
    )
    const claims = measuredClaims(events)
    if (!equalBytes(claims.compose_hash, compose_hash)) wrong.push('another manifest was measured')
    if (!equalBytes(claims.app_id, fromHex(info.app_id, 20)!)) wrong.push('another app id was measured')
    if (toHex(claims.instance_id) !== info.instance_id) wrong.push('another instance id was measured')
    return wrong
  } catch (error) {
    if (error instanceof MalformedEventLog) return [error.message]
    throw error
  }
}
