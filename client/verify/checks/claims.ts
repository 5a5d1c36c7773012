/** Check 2.2: what the machine measured of itself before it was ready, each claim exactly once. */
import { toHex } from '../../../protocol/bytes'
import { measuredClaims } from '../../../protocol/event_log'
import { requireThat } from '../refused'
import { established, type RunCheck } from './verification_case'

export const checkClaims: RunCheck = (verification) => {
  const claims = measuredClaims(established(verification, 'events'))
  const { info } = verification.bundle
  const [app_id, instance_id] = [toHex(claims.app_id), toHex(claims.instance_id)]
  requireThat(info.app_id === app_id, 'the venue states another app id than it measured')
  requireThat(info.instance_id === instance_id, 'the venue states another instance id than it measured')
  verification.established.claims = claims
  return { app_id, instance_id, key_provider: new TextDecoder().decode(claims.key_provider) }
}
