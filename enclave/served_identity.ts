/** What the venue shows of its TLS key: certificate, evidence files and the nonce-less quote, always replaced together. */
import { attestationReportData } from '../protocol/report_data'
import type { AgentQuote } from './agent/get_quote'
import type { TlsMaterial } from './contract'
import { type Evidence, makeEvidence } from './evidence'
import type { EnclaveLimits } from './limits'
import { generateTls } from './tls'

type Served = { tls: TlsMaterial; evidence: Evidence; plain_quote: AgentQuote }

export class ServedIdentity {
  private timer: ReturnType<typeof setTimeout> | undefined
  /** Replacements run one after the other; the last one decides what is served. */
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
        // The evidence at hand stays valid; only its age grows until an attempt succeeds.
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
