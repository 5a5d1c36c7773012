/** Check 5.4: the evidence files carry a genuine quote of the same machine over the certificate of the bound TLS key. */
import { fromAnyHex } from '../../../protocol/any_hex'
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { derOfPem } from '../../../protocol/pem'
import type { TdReport } from '../../../protocol/quote'
import { evidenceReportData } from '../../../protocol/report_data'
import { sha256 } from '../../../protocol/sha256'
import { Refused, requireThat } from '../refused'
import { verifyUnderCollateral } from '../verify_tdx_quote'
import { spkiOfCertificate } from '../x509/certificate'
import { established, type RunCheck } from './verification_case'

export const checkEvidence: RunCheck = async (verification) => {
  const { bundle, policy, now_ms } = verification
  const { quote_json, cert_pem, sha256sum_txt } = bundle.evidences
  const attested = established(verification, 'genuine').quote.report
  const { spki_sha256 } = established(verification, 'binding')
  const collateral = established(verification, 'collateral')
  const { quote } = await verifyUnderCollateral(quoteOf(quote_json), collateral, policy, now_ms)
  requireSameMachine(quote.report, attested)
  // All 64 bytes: a caller chooses the first half of an attestation's, so it could choose this hash.
  requireThat(
    equalBytes(quote.report.report_data, evidenceReportData(utf8(sha256sum_txt))),
    'the evidence quote is not over sha256sum.txt',
  )
  const listed = checksums(sha256sum_txt)
  requireThat(listed.get('cert.pem') === toHex(sha256(utf8(cert_pem))), 'cert.pem is not the listed one')
  const [leaf] = derOfPem(cert_pem, 'CERTIFICATE') ?? []
  if (leaf === undefined) throw new Refused('cert.pem is not a certificate')
  requireThat(equalBytes(sha256(spkiOfCertificate(leaf)), spki_sha256), 'cert.pem is of another TLS key')
  return { files: [...listed.keys()].join(' ') }
}

function quoteOf(quote_json: string): Uint8Array {
  let answer: unknown
  try {
    answer = JSON.parse(quote_json)
  } catch {
    throw new Refused('quote.json is not JSON')
  }
  const quote = (answer as { quote?: unknown } | null)?.quote
  const bytes = typeof quote === 'string' ? fromAnyHex(quote) : undefined
  if (bytes === undefined) throw new Refused('quote.json holds no quote')
  return bytes
}

function requireSameMachine(evidence: TdReport, attested: TdReport): void {
  const measured = ({ mr_td, mr_config_id, rtmr }: TdReport) => [mr_td, mr_config_id, ...rtmr]
  const others = measured(attested)
  const same = measured(evidence).every((register, at) => equalBytes(register, others[at]!))
  requireThat(same, 'the evidence quote is of another machine')
}

/** File name to hash. @throws Refused for a line in another form than sha256sum's, or a name listed twice. */
function checksums(text: string): Map<string, string> {
  const listed = new Map<string, string>()
  for (const line of text.split('\n').slice(0, -1)) {
    const [, hash, name] = /^([0-9a-f]{64}) {2}([A-Za-z0-9._-]+)$/.exec(line) ?? []
    if (hash === undefined || name === undefined || listed.has(name))
      throw new Refused('sha256sum.txt is malformed')
    listed.set(name, hash)
  }
  requireThat(text.endsWith('\n'), 'sha256sum.txt is cut short')
  return listed
}
