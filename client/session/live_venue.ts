/** The venue of a session: its pinned transport, verified again whenever the venue may be another process. */
import { toHex } from '../../protocol/bytes'
import { MustStop } from '../../protocol/tacit_error'
import type { Info, Receipt } from '../../protocol/wire/trading'
import type { Transport } from '../api/venue_client'
import { VerificationFailed, type VerifiedVenue } from '../verified_venue'
import { EvidenceUnavailable } from '../verify/collect/collect_venue'
import { parsePolicy, type VerificationPolicy } from '../verify/policy'
import {
  certificateOf,
  certifiedBy,
  identityOf,
  ReceiptRefused,
  type VenueIdentity,
  verifyReceipt,
} from '../verify/verify_receipt'
import type { ReceiptFile } from '../wallet/receipt_file'

/**
 * A policy file's text, or what `parsePolicy` made. A function is asked before each verification: a policy that names the
 * node of a laptop's chain is another after a restart.
 */
export type PolicySource = VerificationPolicy | string | (() => VerificationPolicy | string)

/** @throws Refused for a text that is no policy */
export function policyOf(source: PolicySource | undefined): VerificationPolicy | undefined {
  const current = typeof source === 'function' ? source() : source
  return typeof current === 'string' ? parsePolicy(current) : current
}

export type SessionVenue = Transport & Pick<VerifiedVenue, 'info' | 'attestation'>

/** The address shows another venue than the one the session began with. */
export class OtherVenue extends MustStop {
  override readonly name = 'OtherVenue'
  readonly code = 'other_venue'
  constructor() {
    super('another venue answers at this address: its id differs from the one the session began with', {})
  }
}

export class LiveVenue implements Transport {
  /** By epoch: a resend is answered with the receipt of the epoch that took the command. */
  private readonly identities = new Map<bigint, VenueIdentity>()
  /** A connection failed: the venue may have restarted, or have a new TLS key. */
  private suspect = false
  private renewing: Promise<void> | undefined

  private constructor(
    private current: SessionVenue,
    private readonly verify: () => Promise<SessionVenue>,
    private readonly receipts: ReceiptFile | undefined,
  ) {
    for (const one of receipts?.certificates ?? []) {
      const identity = certifiedBy(one)
      if (toHex(identity.venue) === current.info.venue) this.identities.set(identity.epoch, identity)
    }
    this.keep(current)
  }
  /** @throws what `verify` throws */
  static async open(verify: () => Promise<SessionVenue>, receipts?: ReceiptFile): Promise<LiveVenue> {
    return new LiveVenue(await verify(), verify, receipts)
  }

  get base_url(): string {
    return this.current.base_url
  }
  get info(): Info {
    return this.current.info
  }
  get identity(): VenueIdentity {
    return identityOf(this.current)
  }

  /** After a failed connection the venue is looked at before anything else is sent. @throws MustStop, or a failed connection */
  async fetch(path: string, init?: RequestInit): Promise<Response> {
    if (this.suspect) await this.renew()
    try {
      return await this.current.fetch(path, init)
    } catch (error) {
      this.suspect = true
      throw error
    }
  }
  webSocket(path: string): WebSocket {
    return this.current.webSocket(path)
  }

  /**
   * Whether a receipt could be verified: one of an epoch that no session of this wallet saw cannot.
   * @param sent journal seq and epoch that were known when the command was first sent: its receipt is of no earlier one
   * @throws ReceiptRefused for a false one, MustStop when the venue's new epoch fails verification
   */
  async hasVerified(
    receipt: Receipt,
    command: Uint8Array,
    sent: { after_seq: number; epoch: bigint },
  ): Promise<boolean> {
    const shown: unknown = Object(receipt).epoch
    if (!Number.isSafeInteger(shown)) throw new ReceiptRefused('the receipt has no well formed epoch')
    const epoch = BigInt(shown as number)
    if (epoch > this.identity.epoch) await this.replace()
    if (epoch > this.identity.epoch || epoch < sent.epoch)
      throw new ReceiptRefused(`the receipt is of epoch ${epoch}, in which the command was not sent`)
    const identity = this.identities.get(epoch)
    if (identity === undefined) return false
    await verifyReceipt(receipt, identity, command, sent.after_seq)
    return true
  }

  /** Whether the process of that epoch still answers; another one is verified. @throws as `fetch` */
  async isInEpoch(epoch: bigint): Promise<boolean> {
    await this.renew()
    return this.identity.epoch === epoch
  }

  private renew(): Promise<void> {
    this.renewing ??= this.look().finally(() => {
      this.renewing = undefined
    })
    return this.renewing
  }
  /** The pinned connection that still shows the same epoch is the same process of the same venue; all else is verified again. */
  private async look(): Promise<void> {
    if (!(await this.isSame())) await this.replace()
    this.suspect = false
  }
  private async isSame(): Promise<boolean> {
    try {
      const info = (await (await this.current.fetch('/info')).json()) as Info
      return info.epoch === this.info.epoch
    } catch {
      return false
    }
  }
  private async replace(): Promise<void> {
    const next = await this.verify().catch((error: unknown) => {
      throw isUnjudged(error)
        ? new EvidenceUnavailable('the venue cannot be judged yet', { cause: error })
        : error
    })
    if (next.info.venue !== this.info.venue) throw new OtherVenue()
    this.keep(next)
    this.current = next
  }
  private keep(venue: SessionVenue): void {
    const identity = identityOf(venue)
    this.identities.set(identity.epoch, identity)
    this.receipts?.keepCertificate(certificateOf(venue))
  }
}

/** The chain or another witness did not answer: nothing is sent, and the venue is judged again before the next request. */
const isUnjudged = (error: unknown): boolean =>
  error instanceof VerificationFailed && Object.keys(error.evidence.missing).length > 0
