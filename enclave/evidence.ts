/** The evidence files: they show that the served TLS certificate's key lives inside the attested machine. */
import { toHex, utf8 } from '../protocol/bytes'
import { evidenceReportData } from '../protocol/report_data'
import { sha256 } from '../protocol/sha256'
import type { AgentQuote } from './agent/get_quote'
import type { TlsMaterial } from './contract'

export type EvidenceFile = { content_type: string; body: string }
export type Evidence = ReadonlyMap<string, EvidenceFile>

/**
 * `sha256sum.txt` lists `cert.pem` in the form of sha256sum(1), and `acme-account.json` where an authority issued it: a CAA
 * record can name that account alone. `quote.json` is the agent's answer for a quote over the hash of that list, so the
 * list cannot name the quote itself. All are made together or not at all.
 */
export async function makeEvidence(
  { cert_pem, account_url }: Pick<TlsMaterial, 'cert_pem' | 'account_url'>,
  quoteOver: (report_data: Uint8Array) => Promise<AgentQuote>,
): Promise<Evidence> {
  const listed: [string, EvidenceFile][] = [
    ['cert.pem', { content_type: 'application/x-pem-file', body: cert_pem }],
  ]
  if (account_url !== undefined) {
    const body = `${JSON.stringify({ uri: account_url })}\n`
    listed.unshift(['acme-account.json', { content_type: 'application/json', body }])
  }
  const checksums = listed.map(([name, { body }]) => `${toHex(sha256(utf8(body)))}  ${name}\n`).join('')
  const { quote, event_log, report_data, vm_config } = await quoteOver(evidenceReportData(utf8(checksums)))
  const quote_json = `${JSON.stringify({ quote, event_log, report_data, vm_config })}\n`
  return new Map([
    ['quote.json', { content_type: 'application/json', body: quote_json }],
    ...listed,
    ['sha256sum.txt', { content_type: 'text/plain; charset=utf-8', body: checksums }],
  ])
}
