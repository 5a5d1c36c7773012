/** The venue of a session: its pinned transport, verified again whenever the venue may be another process. */
import { toHex } from '../../protocol/bytes'
import { NOT_LEADING, type RefusalCode } from '../../protocol/refusals'
import { MustStop, TacitError } from '../../protocol/tacit_error'
import type { Info, Leader, Problem, Receipt } from '../../protocol/wire/trading'
import type { Transport } from '../api/venue_client'
import { HANDSHAKE_MS, NODE_LATE_MS, NODE_RETRY_MS, VENUE_CALL_MS } from '../limits'
import { VerificationFailed, type VerifiedVenue } from '../verified_venue'
import { EvidenceUnavailable } from '../verify/collect/collect_evidence'
import { type EvidenceBundle, leadingOf } from '../verify/evidence_bundle'
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
 * A policy file's text, or the result of `parsePolicy`. A function is called before each verification: a policy that names the
 * node of a laptop's chain changes with a restart.
 */
export type PolicySource = VerificationPolicy | string | (() => VerificationPolicy | string)

/** @throws Refused for a text that is no policy */
export function policyOf(source: PolicySource | undefined): VerificationPolicy | undefined {
  const current = typeof source === 'function' ? source() : source
  return typeof current === 'string' ? parsePolicy(current) : current
}

/** Without `evidence` the serving node is the leading one. */
export type SessionVenue = Transport &
  Pick<VerifiedVenue, 'info' | 'attestation'> & {
    evidence?: EvidenceBundle
  }

/** The serving node's statement about itself: `info` of a venue is the leading one's. */
const nodeOf = ({ evidence, info }: SessionVenue): Info => evidence?.info ?? info
const isFollowing = (venue: SessionVenue): boolean => nodeOf(venue).epoch === 0

/** The address shows another venue than the one the session began with. */
export class OtherVenue extends MustStop {
  override readonly name = 'OtherVenue'
  readonly code = 'other_venue'
  constructor() {
    super('another venue answers at this address: its id differs from the one the session began with', {})
  }
}

/**
 * Another node leads, or serves. Requests to the node before may have been executed: the same bytes are sent to the new one.
 */
export class NodeLeft extends TacitError {
  override readonly name = 'NodeLeft'
  readonly code = 'node_left'
  constructor() {
    super('another node of the venue answers now', {})
  }
}

/** At a node that follows: epoch of the leading node that is judged here. */
const JUDGED_HEADER = 'x-leader-epoch'

/** In addition to `DELETE /orders/ID`. */
const ENDS: readonly string[] = ['/orders/cancel-all', '/orders/dead-man']

export class LiveVenue implements Transport {
  /** By epoch: a resend is answered with the receipt of the epoch that took the command. */
  private readonly identities = new Map<bigint, VenueIdentity>()
  /** A connection failed: the venue may have restarted, have a new TLS key, or another node may lead. */
  private suspect: 'connection' | 'leader' | undefined
  private renewing: Promise<void> | undefined
  /** Journal seq of the newest verified receipt of this epoch: a node that follows must have reached it before it answers. */
  private seen_seq = 0
  /** Open sockets of the serving node. */
  private readonly sockets = new Set<WebSocket>()

  private constructor(
    private current: SessionVenue,
    private readonly verify: () => Promise<SessionVenue>,
    private readonly receipts: ReceiptFile | undefined,
    private readonly has_others: boolean,
  ) {
    for (const one of receipts?.certificates ?? []) {
      const identity = certifiedBy(one)
      if (toHex(identity.venue) === current.info.venue) this.identities.set(identity.epoch, identity)
    }
    this.keep(current)
  }
  /** @param has_others whether `verify` asks several nodes. @throws the errors of `verify` */
  static async open(
    verify: () => Promise<SessionVenue>,
    receipts?: ReceiptFile,
    has_others = false,
  ): Promise<LiveVenue> {
    return new LiveVenue(await verify(), verify, receipts, has_others)
  }

  get base_url(): string {
    return this.current.base_url
  }
  get info(): Info {
    return this.current.info
  }
  /** Another node may answer, or another leading one behind this. */
  private get waits(): boolean {
    return this.has_others || isFollowing(this.current)
  }
  get identity(): VenueIdentity {
    return identityOf(this.current)
  }

  /**
   * After a failed connection the venue is verified before anything else is sent. Of several nodes, a read is repeated until
   * one leads that answers, and so is a command that a node rejected because it no longer leads, for as long as the signal
   * allows.
   * @throws MustStop, or a failed connection
   */
  async fetch(path: string, init?: RequestInit): Promise<Response> {
    const signal = this.waits ? init?.signal : undefined
    for (;;) {
      try {
        const response = await this.ask(path, init)
        const is_resigned = this.waits && (await this.isResigned(response))
        if (!is_resigned || !signal) return response
        signal.throwIfAborted()
      } catch (error) {
        const is_read = (init?.method ?? 'GET') === 'GET'
        if (!signal || !is_read || signal.aborted || error instanceof MustStop) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, NODE_RETRY_MS))
    }
  }
  private async ask(path: string, init?: RequestInit): Promise<Response> {
    const is_judged = await this.lookFor(path, init)
    const answer = this.current.fetch(path, is_judged ? this.seeing(init) : init)
    try {
      return await (this.waits ? this.unlessMoved(answer) : answer)
    } catch (error) {
      if (!(error instanceof NodeLeft)) this.suspect ??= 'connection'
      throw error
    }
  }
  /**
   * A node that is stopped or cut off closes no connection: while its answer is late, the others are asked who leads.
   * @throws NodeLeft once another does: the request is repeated there
   */
  private async unlessMoved(answer: Promise<Response>): Promise<Response> {
    const { current } = this
    let timer: ReturnType<typeof setInterval> | undefined
    const moved = new Promise<never>((_, reject) => {
      timer = setInterval(async () => {
        this.suspect = 'leader'
        await this.renew().catch(() => undefined)
        if (this.isLeft(current)) reject(new NodeLeft())
      }, NODE_LATE_MS)
    })
    try {
      return await Promise.race([answer, moved])
    } finally {
      clearInterval(timer)
    }
  }
  /**
   * A node that follows answers by the word of the leading node that is judged here, and sends nothing to another one. The log
   * of a later epoch has every record that the earlier one acknowledged, unless that one lost a fork.
   */
  private seeing(init: RequestInit | undefined): RequestInit | undefined {
    if (!isFollowing(this.current)) return init
    const headers = new Headers(init?.headers)
    headers.set(JUDGED_HEADER, String(this.info.epoch))
    if (this.seen_seq > 0) headers.set('x-seen-seq', String(this.seen_seq))
    return { ...init, headers }
  }
  /** Whether the node executed nothing because it no longer leads. */
  private async isResigned(response: Response): Promise<boolean> {
    if (response.status !== 503) return false
    const { code } = (await response.clone().json()) as Problem
    const is_resigned = NOT_LEADING.includes(code as RefusalCode)
    // For a command that came while the term was given away.
    if (is_resigned || code === 'outcome_unknown') this.suspect = 'leader'
    return is_resigned
  }
  /** Another epoch, or another node: a node that follows goes on through the next epoch. */
  private isLeft(before: SessionVenue): boolean {
    return (
      before.info.epoch !== this.info.epoch || nodeOf(before).tee_pubkey !== nodeOf(this.current).tee_pubkey
    )
  }
  webSocket(path: string): WebSocket {
    const is_following = isFollowing(this.current)
    const judged = is_following ? { [JUDGED_HEADER]: String(this.info.epoch) } : undefined
    const socket = this.current.webSocket(path, judged)
    this.sockets.add(socket)
    socket.addEventListener('close', () => {
      // Another node may lead.
      if (this.sockets.delete(socket) && is_following) this.suspect ??= 'connection'
    })
    return socket
  }
  async look(): Promise<void> {
    if (this.suspect !== undefined) await this.renew()
  }
  /**
   * Requests that only end orders, and show none, may also go through a verified node to a leading one that cannot be verified
   * yet, for example while the chain does not answer. @returns whether the leading node is judged
   */
  private async lookFor(path: string, init: RequestInit | undefined): Promise<boolean> {
    try {
      await this.look()
      return true
    } catch (error) {
      const ends = init?.method === 'DELETE' || ENDS.includes(path)
      if (!ends || !isFollowing(this.current) || error instanceof MustStop) throw error
      return false
    }
  }

  /**
   * Whether a receipt could be verified; one of an epoch that no session of this wallet saw cannot.
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
    if (epoch > this.identity.epoch) await this.reach(epoch)
    if (epoch > this.identity.epoch || epoch < sent.epoch)
      throw new ReceiptRefused(`the receipt is of epoch ${epoch}, in which the command was not sent`)
    const identity = this.identities.get(epoch)
    if (identity === undefined) return false
    await verifyReceipt(receipt, identity, command, sent.after_seq)
    if (epoch === this.identity.epoch) this.seen_seq = Math.max(this.seen_seq, receipt.seq)
    return true
  }

  /** The node that signed a receipt of a later epoch can be judged soon. */
  private async reach(epoch: bigint): Promise<void> {
    const until_ms = performance.now() + VENUE_CALL_MS
    for (;;) {
      try {
        await this.replace()
        if (epoch <= this.identity.epoch || !this.waits || performance.now() > until_ms) return
      } catch (error) {
        if (!(error instanceof EvidenceUnavailable) || performance.now() > until_ms) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, NODE_RETRY_MS))
    }
  }

  /** Whether the process of that epoch still answers; another one is verified. @throws as `fetch` */
  async isInEpoch(epoch: bigint): Promise<boolean> {
    await this.renew()
    return this.identity.epoch === epoch
  }

  private renew(): Promise<void> {
    this.renewing ??= this.lookInTime().finally(() => {
      this.renewing = undefined
    })
    return this.renewing
  }
  /** Limits a look at several nodes to NODE_LATE_MS: one that does not answer delays no other. A later success still counts. */
  private async lookInTime(): Promise<void> {
    if (!this.waits) return this.judge()
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new EvidenceUnavailable('no node leads yet')), NODE_LATE_MS)
    })
    return Promise.race([this.judge(), late]).finally(() => clearTimeout(timer))
  }
  /**
   * A pinned connection that still shows the same epoch is the same process of the same venue; anything else is verified again.
   */
  private async judge(): Promise<void> {
    if (this.suspect === 'leader' || !(await this.isSame())) await this.replace()
    this.suspect = undefined
  }
  private async isSame(): Promise<boolean> {
    try {
      const signal = AbortSignal.timeout(this.suspect === 'leader' ? NODE_LATE_MS / 2 : HANDSHAKE_MS)
      const ask = async (path: string) => (await this.current.fetch(path, { signal })).json()
      const info = isFollowing(this.current)
        ? ((await ask('/attestation/leader')) as Leader).info
        : ((await ask('/info')) as Info)
      return info.epoch === this.info.epoch
    } catch {
      return false
    }
  }
  private async replace(): Promise<void> {
    const next = await this.verify().catch((error: unknown) => {
      throw isUnjudged(error) || this.isPassed(error)
        ? new EvidenceUnavailable('the venue cannot be judged yet', { cause: error })
        : error
    })
    if (next.info.venue !== this.info.venue) throw new OtherVenue()
    if (next.info.epoch < this.info.epoch)
      throw new EvidenceUnavailable(`only a node of the earlier epoch ${next.info.epoch} answers`)
    const before = this.current
    const is_other = nodeOf(next).tee_pubkey !== nodeOf(before).tee_pubkey
    // The first node that answered serves; others are asked only while it does not.
    const may_stay = this.suspect !== 'connection' && next.info.epoch === before.info.epoch
    if (is_other && may_stay && (await this.isSame())) return
    this.keep(next)
    this.current = next
    if (next.info.epoch > before.info.epoch) this.seen_seq = 0
    if (is_other) this.closeSockets()
  }
  /** A node that hangs neither ends a socket nor answers that one ends: its user learns it at once. */
  private closeSockets(): void {
    for (const socket of this.sockets) {
      socket.close()
      socket.dispatchEvent(new Event('close'))
    }
    this.sockets.clear()
  }
  /** The previous node is rejected if the chain shows a later epoch, even while the one that opened it does not serve yet. */
  private isPassed(error: unknown): boolean {
    if (!(error instanceof VerificationFailed)) return false
    const { evidence, transcript } = error
    // A node that follows shows the one before until it knows the next.
    const only_leading = transcript.checks.every(({ result, leading }) => leading || result !== 'fail')
    const has_others = this.has_others || (evidence.leader != null && only_leading)
    return has_others && leadingOf(evidence).info.epoch <= this.info.epoch
  }
  private keep(venue: SessionVenue): void {
    const identity = identityOf(venue)
    this.identities.set(identity.epoch, identity)
    this.receipts?.keepCertificate(certificateOf(venue))
  }
}

/** The chain or another witness did not answer: nothing is sent, and the venue is judged again before the next request. */
const isUnjudged = (error: unknown): boolean =>
  error instanceof VerificationFailed &&
  Object.keys({ ...error.evidence.missing, ...error.evidence.leader?.missing }).length > 0
