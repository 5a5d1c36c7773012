/** Runs one open socket: its session, incoming and outgoing frames, heartbeats, and the reasons for which it closes. */

import type { EventSink, Session, Subscription } from '../../engine/venue'
import type { SystemStatus } from '../../protocol/wire/trading'
import type { OpSocket, StreamContract } from '../edge/endpoint'
import { placeOf } from '../edge/problem'
import type { Services } from '../edge/services'
import { CLOSE_GRACE_MS, EARLY_EVENTS_MAX, EXPIRY_WARNING_MS, HEARTBEAT_MS } from '../limits'
import { type Commands, openCommands } from './commands'
import type { ServerFrame } from './frames'
import {
  type Delivery,
  type Frames,
  type Outbox,
  openDelivery,
  openOutbox,
  type Snapshot,
  type Transport,
} from './outbox'

/** Close codes. */
const RESTART = 1012
const TOKEN_ENDED = 4401
const TOO_SLOW = 4408
const TOO_FAST = 4429

export type Start = {
  after: number | undefined
  subscription: Subscription
  snapshot: Snapshot | undefined
}

export class Connection implements OpSocket {
  readonly account_id: string
  readonly access: Session['access']
  readonly origin: string
  /** Receives the subscription's events, from before the upgrade. */
  readonly sink: EventSink = {
    events: (events) => {
      if (this.behind || this.isOver() || this.isPassed()) return
      this.delivery.events(events)
      this.behind = this.delivery.waiting() >= EARLY_EVENTS_MAX
    },
    ended: () => this.close(TOKEN_ENDED, 'token ended'),
    bye: (reason, retry_after_ms) => this.bye(reason, retry_after_ms),
  }
  private current: Session
  private subscription: Subscription | undefined
  private transport: Transport | undefined
  private readonly outbox: Outbox
  private readonly delivery: Delivery
  private readonly commands: Commands
  private closing: { code: number; reason: string; at_ms: number } | undefined
  private behind = false
  private armed = false
  private said_bye = false
  private warned = false
  private beat_ms: number

  constructor(
    private readonly services: Services,
    private readonly contract: StreamContract,
    session: Session,
    private readonly onClosed: (connection: Connection) => void,
    readonly judged?: number | undefined,
  ) {
    this.account_id = session.account_id
    this.access = session.access
    this.origin = services.node + crypto.randomUUID()
    this.current = session
    this.beat_ms = services.clock.monotonicMs()
    const send = (text: string) => {
      if (this.closing === undefined) this.outbox.push(text)
    }
    const sendAll = (frames: Frames) => {
      if (this.closing === undefined) this.outbox.pushAll(frames)
    }
    this.outbox = openOutbox(services.meters, () => this.close(TOO_SLOW, 'too slow'))
    this.delivery = openDelivery({ kinds: contract.kinds, send, sendAll })
    this.commands = openCommands({
      services,
      ops: contract.ops,
      socket: this,
      stream: contract.name,
      send,
      isOpen: () => this.closing === undefined,
      onFlood: () => this.close(TOO_FAST, 'too fast'),
    })
  }

  readonly gap = (seq_from: number, seq_to: number): void => {
    if (!this.isPassed()) this.delivery.gap(seq_from, seq_to)
  }

  /** Called after the upgrade: sends hello and the queued events. */
  opened(transport: Transport, start: Start): void {
    const { venue } = this.services
    this.transport = transport
    this.subscription = start.subscription
    const { slot, unix_ms } = venue.time()
    const hello: ServerFrame = {
      type: 'hello',
      stream: this.contract.name,
      account_id: this.account_id,
      seq_first: start.subscription.seq_first,
      seq_last: start.subscription.seq_last,
      heartbeat_ms: HEARTBEAT_MS,
      slot,
      unix_ms,
    }
    this.outbox.attach(transport)
    // Another node may have taken the lead since the upgrade was requested.
    if (!this.isPassed())
      this.delivery.begin(hello, start.after ?? start.subscription.seq_last, start.snapshot)
    if (this.closing !== undefined) transport.close(this.closing.code, this.closing.reason)
    else {
      this.outbox.pump()
      this.closeIfBehind()
    }
  }

  message(message: string | Uint8Array): void {
    this.services.meters.frameReceived()
    if (this.closing === undefined && !this.isOver()) this.commands.message(message)
  }

  control(): void {
    if (this.closing === undefined && !this.isOver()) this.commands.control()
  }

  drained(): void {
    this.outbox.pump()
    this.closeIfBehind()
  }

  closed(): void {
    const { venue, log } = this.services
    this.outbox.clear()
    this.leave()
    this.closing ??= { code: 1006, reason: '', at_ms: this.services.clock.monotonicMs() }
    this.onClosed(this)
    // After `bye` the client resumes, so this is no disconnect.
    if (!this.armed || this.said_bye) return
    venue.disconnected(this.account_id, this.origin).catch((error) => {
      log.write('error', 'disconnect_failed', placeOf(error))
    })
  }

  /** Called about once a second; `now_ms` is monotonic. */
  tick(now_ms: number): void {
    if (this.transport === undefined) return
    if (this.closing !== undefined) {
      if (now_ms - this.closing.at_ms > CLOSE_GRACE_MS) this.transport.terminate()
      return
    }
    if (this.isOver(now_ms)) return
    if (this.armed && !this.services.venue.isArmed(this.origin)) {
      this.unarmed()
      return
    }
    const is_passed = this.isPassed()
    const expires_in_ms = Math.floor(this.current.expires_ms - now_ms)
    if (expires_in_ms <= EXPIRY_WARNING_MS && !this.warned) {
      this.warned = true
      this.send({ type: 'warning', reason: 'token_expiring', expires_in_ms })
    }
    if (now_ms - this.beat_ms < HEARTBEAT_MS) return
    if (is_passed) {
      this.beat_ms = now_ms
      this.send({ type: 'warning', reason: 'leader_changed', expires_in_ms })
      return
    }
    const seq = this.subscription?.seqNow()
    if (seq === undefined) return
    this.beat_ms = now_ms
    const { slot, unix_ms } = this.services.venue.time()
    this.send({ type: 'heartbeat', seq, slot, unix_ms })
  }

  status({ ready, reasons, reopens_slot }: SystemStatus): void {
    const slot = reopens_slot === undefined ? {} : { reopens_slot }
    if (this.transport !== undefined && !this.isPassed())
      this.send({ type: 'status', ready, reasons, ...slot })
  }

  /** Continues the session under a newer token of the same account; events are not interrupted. */
  renew(token: string): Session {
    this.current = this.services.venue.refresh(this.current, token)
    this.subscription?.renew(this.current)
    this.warned = false
    return this.current
  }

  async arm(armed: boolean): Promise<void> {
    const { venue } = this.services
    const before = this.armed
    // Set before the answer: if the socket closes meanwhile, the engine decides by its journal.
    this.armed = true
    try {
      await venue.armDisconnect(this.account_id, this.origin, armed)
      // Another call may be under way, and be the last one.
      this.armed = armed || venue.isArmed(this.origin)
    } catch (error) {
      this.armed = before || venue.isArmed(this.origin)
      throw error
    }
  }

  bye(reason: 'upgrade' | 'restart', retry_after_ms: number): void {
    if (this.said_bye) return
    this.said_bye = true
    this.send({ type: 'bye', reason, retry_after_ms })
    this.close(RESTART, reason)
  }

  /** It counted as closed while its node had no connection to the leading one: the client should arm another one. */
  private unarmed(): void {
    this.send({ type: 'bye', reason: 'restart', retry_after_ms: 0 })
    this.close(RESTART, 'restart')
  }

  private close(code: number, reason: string): void {
    if (this.closing !== undefined) return
    this.closing = { code, reason, at_ms: this.services.clock.monotonicMs() }
    this.outbox.pump()
    this.outbox.clear()
    this.leave()
    this.transport?.close(code, reason)
  }

  /** Closes the socket of an expired token: the next tick can be a second away. */
  private isOver(now_ms = this.services.clock.monotonicMs()): boolean {
    if (now_ms < this.current.expires_ms) return false
    this.close(TOKEN_ENDED, 'token ended')
    return true
  }

  /**
   * Another node leads than the client has judged: the client should judge it and reconnect. An armed socket stays, as its end
   * would cancel orders: it gets nothing from that node, and takes only its disarming.
   */
  private isPassed(): boolean {
    if (this.judged === undefined) return false
    const epoch = this.services.venue.epochLed()
    if (epoch === undefined || epoch === this.judged) return false
    if (!this.armed) this.bye('restart', 0)
    return true
  }

  private leave(): void {
    this.subscription?.close()
    this.subscription = undefined
  }

  private closeIfBehind(): void {
    if (this.behind && this.outbox.isEmpty()) this.close(TOO_SLOW, 'resume from the last seq')
  }

  private send(frame: ServerFrame): void {
    if (this.closing === undefined) this.outbox.push(JSON.stringify(frame))
  }
}
