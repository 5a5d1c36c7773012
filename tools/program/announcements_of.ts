/** Lists the announcements that a vault needs before a machine may open its epochs, as read from a quote of that machine. */

import { sha256 } from '../../protocol/sha256'
import { readPckPlatform } from '../../protocol/tdx/collateral'
import { measuredClaims, parseEventLog } from '../../protocol/tdx/event_log'
import type { Quote } from '../../protocol/tdx/quote'
import { type AnnouncedTopic, minimumValue } from '../../protocol/vault/admin'
import { compressedKey, imageId } from '../../protocol/vault/epochs'
import { readCertificate } from '../../protocol/x509/certificate'

export type Announcement = AnnouncedTopic & { value?: Uint8Array }

/**
 * The minima are the machine's own versions. The epoch authority comes last: a machine waits until it is announced.
 * @throws MalformedEventLog, MalformedDer, Refused. Whether quote and log are genuine is the caller's check.
 */
export function announcementsOf(
  { report, qe_report, pck_chain }: Quote,
  event_log: string,
  epoch_authority: Uint8Array,
): Announcement[] {
  const claims = measuredClaims(parseEventLog(event_log))
  const [leaf, , root] = pck_chain.map(readCertificate)
  if (leaf === undefined || root === undefined) throw new RangeError('the quote carries no PCK chain')
  const { ppid, fmspc, cpu_svn, pce_svn } = readPckPlatform(leaf)
  return [
    { list: 'attestation_root', value: compressedKey(root.public_key) },
    { list: 'platform', id: ppid },
    { list: 'fmspc_minimum', id: fmspc, value: minimumValue(Uint8Array.from(cpu_svn), pce_svn) },
    { list: 'tee_tcb_minimum', value: minimumValue(report.tee_tcb_svn, 0) },
    { list: 'qe_minimum', value: minimumValue(new Uint8Array(16), qe_report.isv_svn) },
    { list: 'image', id: imageId(report) },
    { list: 'build', id: claims.compose_hash },
    { list: 'app_id', value: claims.app_id },
    { list: 'key_provider', value: sha256(claims.key_provider) },
    { list: 'epoch_authority', value: epoch_authority },
  ]
}
