/** Checks 2.1 to 2.3: runtime registers, the machine's claims, MRCONFIGID. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { measuredClaims, parseEventLog, replayRegisters } from '../../../protocol/tdx/event_log'
import { judgeMrConfigId } from '../../../protocol/tdx/mr_config_id'
import { requireThat } from '../transcript'
import { established, type RunMachineCheck, Skipped } from './verification_case'

/** Check 2.1: the event log replays to all four runtime registers of the quote. */
export const checkRegisters: RunMachineCheck = (verification) => {
  const { rtmr } = established(verification, 'genuine').quote.report
  const events = parseEventLog(verification.bundle.attestation.event_log)
  for (const [index, register] of replayRegisters(events).entries())
    requireThat(equalBytes(register, rtmr[index]!), `the event log does not lead to RTMR${index}`)
  verification.established.events = events
  return { events: String(events.length), rtmr3: toHex(rtmr[3]) }
}

/** Check 2.2: the machine measured each claim exactly once before it was ready, and the venue states the same. */
export const checkClaims: RunMachineCheck = (verification) => {
  const claims = measuredClaims(established(verification, 'events'))
  const { info } = verification.bundle
  const [app_id, instance_id] = [toHex(claims.app_id), toHex(claims.instance_id)]
  requireThat(info.app_id === app_id, 'the venue states another app id than it measured')
  requireThat(info.instance_id === instance_id, 'the venue states another instance id than it measured')
  verification.established.claims = claims
  return { app_id, instance_id, key_provider: new TextDecoder().decode(claims.key_provider) }
}

/** Check 2.3: the quote's own commitment to manifest and identity, recomputed from the measured claims. */
export const checkMrConfigId: RunMachineCheck = (verification) => {
  const { report } = established(verification, 'genuine').quote
  const found = judgeMrConfigId(report.mr_config_id, established(verification, 'claims'))
  if (found === 'none') throw new Skipped('mr_config_id_absent')
  requireThat(found !== 'malformed', 'MRCONFIGID has an unknown form or padding')
  requireThat(found !== 'other', 'MRCONFIGID commits to other facts than the measured ones')
  return { form: found }
}
