/** Holds the venue's public TLS identity with its evidence, and composes the answer of `/attestation`. */
import { encodeBase58 } from '../protocol/base58'
import { BINDING_BODY, STATEMENT_BODY } from '../protocol/bodies/statements'
import { fromHex, toHex, utf8 } from '../protocol/bytes'
import type { SigningKey } from '../protocol/ed25519'
import { Refusal } from '../protocol/refusals'
import { sha256 } from '../protocol/sha256'
import { attestationReportData, evidenceReportData } from '../protocol/tdx/quote'
import type { Attestation } from '../protocol/wire/trading'
import type { AgentQuote } from './agent'
import type { TlsMaterial, VenueBinding } from './contract'
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

/** The statement key's certificate: 88 bytes signed by the settlement key (attestation.md "Endpoints"). */
export type StatementCertificate = { body: Uint8Array; signature: Uint8Array }

export function certifyStatementKey(
  settlement_key: SigningKey,
  statement_key: SigningKey,
  binding: VenueBinding,
): StatementCertificate {
  const { venue, epoch } = binding
  const body = STATEMENT_BODY.encode({ venue, statement_key: statement_key.public_key, epoch: BigInt(epoch) })
  return { body, signature: settlement_key.sign(body) }
}

type AttestationParts = {
  quote: AgentQuote
  /** 32 bytes; zeros when the caller sent none. */
  nonce: Uint8Array
  tee_pubkey: Uint8Array
  kind: 'dstack' | 'development'
  /** 40 hex digits or empty. */
  instance_id: string
  spki_sha256: Uint8Array
  venue: Uint8Array
  epoch: number
  slot: number
  statement_key: SigningKey
  certificate: StatementCertificate
}

/** Signs the 148-byte binding body; a machine without instance id binds 20 zero bytes. */
export function composeAttestation(parts: AttestationParts): Attestation {
  const { quote, nonce, tee_pubkey, kind, instance_id, spki_sha256, venue, statement_key, certificate } =
    parts
  const body = BINDING_BODY.encode({
    venue,
    nonce,
    spki_sha256,
    instance_id: fromHex(instance_id, 20) ?? new Uint8Array(20),
    epoch: BigInt(parts.epoch),
    slot: BigInt(parts.slot),
  })
  return {
    quote: quote.quote,
    event_log: quote.event_log,
    report_data: quote.report_data,
    vm_config: quote.vm_config,
    tee_pubkey: encodeBase58(tee_pubkey),
    enclave: kind,
    binding: {
      body: toHex(body),
      signature: toHex(statement_key.sign(body)),
      certificate: toHex(certificate.body),
      certificate_signature: toHex(certificate.signature),
      statement_key: encodeBase58(statement_key.public_key),
    },
  }
}

type Waiting = { since_ms: number; bounded: boolean; start: () => void; refuse: (error: Error) => void }

/** Serializes quotes and bounds the callers that wait: quotes use hardware that the whole host shares. */
export class QuoteQueue {
  private readonly waiting: Waiting[] = []
  private busy = false
  /** Running average of a quote's duration; the initial value is that of hardware. */
  private average_ms = 40

  constructor(private readonly limits: { quote_waiting_max: number; quote_wait_ms: number }) {}

  /**
   * Runs `task` when its turn comes. The venue's own quotes (`own`) go first and are never rejected: evidence must not depend
   * on load from clients. @throws Refusal `quote_busy` with retry_after_ms when too many wait, or one waits too long.
   */
  async run<T>(task: () => Promise<T>, own = false): Promise<T> {
    if (this.busy) await this.turn(own)
    this.busy = true
    const started_ms = performance.now()
    try {
      return await task()
    } finally {
      this.average_ms += (performance.now() - started_ms - this.average_ms) / 8
      this.busy = false
      this.next()
    }
  }

  /** Rejects all waiting callers. */
  close(): void {
    for (const entry of this.waiting.splice(0)) entry.refuse(new Refusal('enclave_unavailable'))
  }

  private turn(own: boolean): Promise<void> {
    if (!own && this.waiting.filter((entry) => entry.bounded).length >= this.limits.quote_waiting_max) {
      throw this.refusal()
    }
    return new Promise((start, refuse) => {
      const entry = { since_ms: performance.now(), bounded: !own, start, refuse }
      if (own) this.waiting.unshift(entry)
      else this.waiting.push(entry)
    })
  }

  private next(): void {
    const oldest_ms = performance.now() - this.limits.quote_wait_ms
    for (let entry = this.waiting.shift(); entry !== undefined; entry = this.waiting.shift()) {
      if (!entry.bounded || entry.since_ms >= oldest_ms) {
        // Set before the waiter resumes, so that no other call runs in between.
        this.busy = true
        entry.start()
        return
      }
      entry.refuse(this.refusal())
    }
  }

  private refusal(): Refusal {
    return new Refusal('quote_busy', {
      retry_after_ms: Math.ceil(this.average_ms * (this.waiting.length + 1)),
    })
  }
}
