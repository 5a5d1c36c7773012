/** Check 5.1: all 64 bytes of report_data are this nonce and the settlement key. */
import { decodeBase58 } from '../../../protocol/base58'
import { equalBytes, fromHex, isZero, toHex } from '../../../protocol/bytes'
import { attestationReportData } from '../../../protocol/report_data'
import { Refused, requireThat } from '../refused'
import { established, type RunCheck } from './verification_case'

export const checkReportData: RunCheck = (verification) => {
  const { info, attestation, nonce } = verification.bundle
  const { report_data } = established(verification, 'genuine').quote.report
  const nonce_bytes = fromHex(nonce, 32)
  if (nonce_bytes === undefined || isZero(nonce_bytes)) throw new Refused('no nonce was sent')
  const tee_pubkey = decodeBase58(attestation.tee_pubkey, 32)
  if (tee_pubkey === undefined) throw new Refused('the settlement key is malformed')
  requireThat(info.tee_pubkey === attestation.tee_pubkey, 'the venue states two settlement keys')
  requireThat(attestation.report_data === toHex(report_data), 'the stated report_data is not the quoted one')
  requireThat(
    equalBytes(report_data, attestationReportData(nonce_bytes, tee_pubkey)),
    'report_data is not this nonce and the settlement key',
  )
  return { tee_pubkey: attestation.tee_pubkey, nonce }
}
