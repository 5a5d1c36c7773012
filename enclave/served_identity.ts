/** Holds the venue's public TLS identity: certificate, evidence files and the quote without nonce, replaced together. */

import { toHex, utf8 } from '../protocol/bytes'
import { sha256 } from '../protocol/sha256'
import { attestationReportData, evidenceReportData } from '../protocol/tdx/quote'
import type { AgentQuote } from './agent'
import type { TlsMaterial } from './contract'
import type { EnclaveLimits } from './limits'
import { generateTls } from './x509'

type EvidenceFile = { content_type: string; body: string }
type Evidence = ReadonlyMap<string, EvidenceFile>
type Served = { tls: TlsMaterial; evidence: Evidence; plain_quote: AgentQuote }

export class ServedIdentity {
  private timer: ReturnType<typeof setTimeout> | undefined
  /** Replacements run one after the other; the last one is served. */
  private tail: Promise<unknown> = Promise.resolve()
  private closed = false

  private constructor(
    private served: Served,
    private readonly names: readonly string[],
    private readonly tee_pubkey: Uint8Array,
    private readonly quoteOver: (report_data: Uint8Array) => Promise<AgentQuote>,
    private readonly limits: EnclaveLimits,
  ) {
    this.renewAfter(limits.evidence_renew_ms)
  }

  /** @throws AgentFailure when the first quotes cannot be made. */
  static async open(
    names: readonly string[],
    tee_pubkey: Uint8Array,
    quoteOver: (report_data: Uint8Array) => Promise<AgentQuote>,
    limits: EnclaveLimits,
  ): Promise<ServedIdentity> {
    const tls = generateTls(names, Date.now())
    const served = await makeServed(tls, tee_pubkey, quoteOver)
    return new ServedIdentity(served, names, tee_pubkey, quoteOver, limits)
  }

  get current(): Served {
    return this.served
  }

  /** `next` or a new self-signed certificate, with its evidence; nothing changes when a quote fails. @throws AgentFailure */
  async rotate(next?: TlsMaterial): Promise<TlsMaterial> {
    return (await this.replace(() => next ?? generateTls(this.names, Date.now()))).tls
  }

  close(): void {
    this.closed = true
    clearTimeout(this.timer)
  }

  private replace(tls: () => TlsMaterial): Promise<Served> {
    const replaced = this.tail.then(async () => {
      this.served = await makeServed(tls(), this.tee_pubkey, this.quoteOver)
      return this.served
    })
    this.tail = replaced.catch(() => undefined)
    return replaced
  }

  private renewAfter(delay_ms: number): void {
    if (this.closed) return
    this.timer = setTimeout(() => {
      this.replace(() => this.served.tls).then(
        () => this.renewAfter(this.limits.evidence_renew_ms),
        // The current evidence stays valid until a retry succeeds; only its age grows.
        () => this.renewAfter(this.limits.evidence_retry_ms),
      )
    }, delay_ms)
    this.timer.unref()
  }
}

async function makeServed(
  tls: TlsMaterial,
  tee_pubkey: Uint8Array,
  quoteOver: (report_data: Uint8Array) => Promise<AgentQuote>,
): Promise<Served> {
  const evidence = await makeEvidence(tls, quoteOver)
  const plain_quote = await quoteOver(attestationReportData(new Uint8Array(32), tee_pubkey))
  return { tls, evidence, plain_quote }
}

/**
 * Files that prove that the key of the served TLS certificate is inside the attested machine. `sha256sum.txt` lists
 * `cert.pem` in the format of sha256sum(1), and `acme-account.json` if an authority issued the certificate: a CAA record can
 * permit only that account. `quote.json` is the agent's answer for a quote over the hash of this list, so the list cannot
 * contain the quote itself.
 */
async function makeEvidence(
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
