/**
 * Declares the public interface of the engine, which routes call. Requests arrive parsed by `parserOf`. Writes resolve once their journal record is durable and
 * reject with `Refusal`; reads never show state newer than the durable journal.
 */
import type { RefusalCode } from '../protocol/refusals'
import type { EventSeq, JournalSeq } from '../protocol/units'
import type * as wire from '../protocol/wire/trading'
import type { Parsed } from '../protocol/wire/values'
import type { CancelAllFields, CancelFields, CommandBody } from './commands'
import type { LeaderPort } from './ports'

export type Page = { after: EventSeq; limit: number }
type OrdersPage = Page & {
  status?: 'open' | wire.OrderStatus | undefined
  symbol?: string | undefined
}

/** JSON text of a T, ready to be sent. */
export type Json<T> = string & { readonly json_of?: T }

/** An account's own resources as JSON text: they are stored as text and sent without parsing. */
/** Reads of `snapshot` are charged here, those of the others by who asked. */
export interface OwnTexts {
  order(account_id: string, order_id: string): Json<wire.Order>
  orders(account_id: string, page: OrdersPage): Json<wire.Page<wire.Order>>
  fills(account_id: string, page: Page): Json<wire.Page<wire.Fill>>
  events(account_id: string, page: Page): Json<wire.Page<wire.AccountEvent>>
  withdrawal(account_id: string, withdrawal_id: string): Json<wire.Withdrawal>
  reshape(account_id: string, reshape_id: string): Json<wire.Reshape>
  /** Live orders and the event seq they include: the `snapshot` frame. */
  snapshot(caller: Caller): Promise<{ seq: EventSeq; orders: Json<wire.Order[]> }>
}

/** A logged-in account: created by `login`, resolved on each request by `authenticate`. */
export type Session = {
  readonly account_id: string
  /** SHA-256 of the token, hex; identifies the session without storing the token. */
  readonly token_id: string
  /** Monotonic milliseconds at which the token expires. */
  readonly expires_ms: number
  /** The credential that logged in, and its kind: `read` reads orders, fills and events only. */
  readonly credential_id: string
  readonly access: 'trade' | 'read'
}

/** Whose limits a request counts against: trading credentials and credentials that only read have separate ones. */
export type Caller = Pick<Session, 'account_id' | 'access'>

/** `text` is the event as JSON; one text serves all sinks of the account. */
export type EventWithText = { readonly event: wire.AccountEvent; readonly text: string }

/** Receives an account's events in seq order, only after they are durable. */
export interface EventSink {
  /** At least one event, in order: all of one turn, or a page of the log. Sinks share the list and must not change it. */
  events(events: readonly EventWithText[]): void
  /** The session's token was revoked or expired, or its credential ended. */
  ended(): void
  /** The venue is shutting down. */
  bye(reason: 'upgrade' | 'restart', retry_after_ms: number): void
}
/** An account in the operator's list. */
export type AccountSummary = Pick<
  wire.AccountView,
  'account_id' | 'account_key' | 'version' | 'state' | 'limits'
>

export interface Subscription {
  /** First retained and last seq of the account when the subscription began. */
  readonly seq_first: EventSeq
  readonly seq_last: EventSeq
  /** Last durable seq now (heartbeats); undefined while this node may not answer. */
  seqNow(): EventSeq | undefined
  /** Continues the stream under a newer token of the same account (Venue.refresh). */
  renew(session: Session): void
  close(): void
}

/** State of the token bucket, sent in the headers `RateLimit`, `RateLimit-Policy` and `Retry-After`. */
export type LimitState = { capacity: number; refill_per_s: number; remaining: number; retry_after_ms: number }

export type Answers = 'held' | 'at_once'

/** Versions of rules and formats: that of the state, and those that this build carries. */
type Versions = { version: number; carried: readonly number[] }
/** Answers of a node that leads to those that follow it. */
export type Lead = {
  epoch: number
  /** End of its journal, and the hash there. */
  seq: JournalSeq
  head: string
  /** Longest validity from now on. */
  right_ms: number
  status: wire.SystemStatus
  /** Code with which new orders are rejected now. */
  unavailable: RefusalCode | null
  /** That follow it. */
  nodes: number
}
/** As a node that follows has it; `until_ms` is monotonic, counted from when it asked. */
export type Right = Lead & { until_ms: number }

/**
 * Requests of a node that follows to the leading one, for its callers. `seq`: the last record it had applied when it verified
 * the token, so that nothing is done for a token that has ended since, however late the request comes.
 */
export type Passed =
  /** A verified command of a trader; `signed` is its body and signature, which the receipt names. */
  | {
      kind: 'command'
      seq: JournalSeq
      access: Caller['access']
      command: Uint8Array
      signed: Uint8Array
      answers: Answers
    }
  /** A record that no receipt covers: of logins, credentials, keys and sockets. */
  | { kind: 'record'; seq: JournalSeq; access: Caller['access']; command: Uint8Array }
  /** A read that the leading node signs or proves. */
  | { kind: 'statistics'; symbol: string; after: number; limit: number; period: wire.StatisticsPeriod }
  | { kind: 'tree_root' }
  | { kind: 'tree_leaves'; from: number; limit: number }
  | { kind: 'tree_inclusion'; leaf: string | number }
  /** Of no caller: the node, whose sockets' names begin with `node`, ends as planned. */
  | { kind: 'leaves'; node: string }
/** `seq` is durable, and the answer depends on nothing newer. */
export type PassedAnswer = { value: object; seq: JournalSeq; limits: LimitState | null }

/** A node of a cluster while another one leads. */
export interface FollowingNode {
  /**
   * Serves from the records that this node has replayed, and by the leading node. Refuses `lease_lost` without the right to
   * answer.
   */
  front(leader: LeaderPort): NodeVenue
  /** Whether it has a state to serve from: the chain has shown who wrote its journal. */
  isShown(): boolean
  /** This node is to end: it no longer leads from here on. False if it already ends, or will. */
  leave(): boolean
  /** The end of the log that its state includes, and the epoch there. */
  applied(): { seq: JournalSeq; epoch: number }

  /** 64 hex digits. */
  readonly venue: string
  status(): wire.SystemStatus
  versions(): Versions
  /** Records that the log had beyond this journal when it was read last, and the age of that reading. */
  lag(): { records: number; age_ms: number }
  /** Where the leading node says that other nodes reach it; nothing proves it. */
  leaderUrl(): string | undefined
}

/** Methods of every node of a venue. */
export interface NodeVenue {
  // writes, by an account
  place(
    account_id: string,
    request: Parsed<typeof wire.PlaceRequest>,
    origin?: string,
  ): Promise<wire.PlaceResult>
  /** `answers`: whether the answer to a deferred command waits for its effect, the default, or says that it is pending. */
  cancel(account_id: string, request: CancelFields, answers?: Answers): Promise<wire.CancelResult>
  /** `order_id` is the old order. */
  modify(
    account_id: string,
    request: Parsed<typeof wire.ModifyParams>,
    origin?: string,
    answers?: Answers,
  ): Promise<wire.ModifyResult>
  cancelAll(account_id: string, items: CancelAllFields[]): Promise<wire.CancelAllResult>
  deadMan(account_id: string, request: Parsed<typeof wire.DeadManRequest>): Promise<wire.DeadManResult>
  withdraw(account_id: string, request: Parsed<typeof wire.WithdrawalRequest>): Promise<wire.WithdrawalResult>
  reshape(account_id: string, request: Parsed<typeof wire.ReshapeRequest>): Promise<wire.ReshapeResult>
  /** Every check of a place that depends on nothing hidden; throws Refusal, books nothing. */
  check(account_id: string, request: Parsed<typeof wire.CheckRequest>): void
  /**
   * On a node that follows: resolves once it has the records that the leading node has now, at least `seq` and those of the
   * account's earlier answers here. Undefined if there is nothing to wait for. @throws Refusal `lease_lost`
   */
  caughtUp(account_id?: string, seq?: JournalSeq): Promise<void> | undefined
  /**
   * On a node that follows while the leading one gives its term away: resolves once it may answer by the word of the next one,
   * or leads, or the wait is over. Undefined if there is nothing to wait for, or too many requests of the caller wait already.
   */
  handedOver(token: string | undefined): Promise<void> | undefined
  /** The same for a message of a socket, before it is rejected: undefined unless it is the right that is missing. */
  late(caller: Caller): Promise<void> | undefined
  /** Epoch of the node by whose word this one answers now; undefined where it may answer nothing. */
  epochLed(): number | undefined
  /**
   * On the node that leads, for one that follows.
   * @param costOf tokens that a command takes from its account's bucket
   * @param isOver whether the connection that it came on has ended: waiting commands are then not executed
   */
  passed(
    passed: Passed,
    costOf: (command: CommandBody) => number,
    isOver: () => boolean,
  ): Promise<PassedAnswer>
  /**
   * The sockets of a node, whose names begin with `node`, count as closed unless it comes back, or their account armed one elsewhere.
   * @param alive_ms monotonic time of the newest proof that it lived
   */
  nodeLost(node: string, alive_ms: number): void
  /**
   * The node says which of the sockets armed there are open: its others have closed. Resolves, once that is durable, with those
   * of `open` that are not armed.
   */
  nodeBack(node: string, open: ReadonlySet<string>): Promise<string[]>
  /** Arms or disarms cancel-on-disconnect for orders placed with this `origin` (one socket). Journaled. */
  armDisconnect(account_id: string, origin: string, armed: boolean): Promise<void>
  /** Whether a socket of this process that was armed is so still: it is not where it counted as closed meanwhile. */
  isArmed(origin: string): boolean
  /** The socket `origin` closed; cancels its orders if armed. */
  disconnected(account_id: string, origin: string): Promise<void>

  // reads, by an account
  /** Synchronous unless the answer depends on a record that is not durable yet. */
  nonces(account_id: string, trading_key: string): wire.Nonces | Promise<wire.Nonces>
  /** Texts ready to send. */
  readonly own: OwnTexts
  /** Of a commitment or of the leaf at an index; throws `leaf_unknown`. */
  treeInclusion(leaf: Uint8Array | number, caller?: Caller): Promise<wire.TreeInclusion>
  /** `caller` has its share of the requests that a node that follows sends to the leading one. */
  treeLeaves(from: number, limit: number, caller?: Caller): Promise<wire.TreeLeaves>
  settlementHealth(): wire.SettlementHealth
  settlementBatch(batch: number): Promise<wire.SettlementBatchStage>
  settlementOfOrder(account_id: string, order_id: string): Promise<wire.OrderStages>
  /**
   * Replays durable events after `after`, then follows. Throws `after_invalid` when `after` is ahead of the log, and calls
   * `gap` when it is older than retention.
   */
  subscribe(
    session: Session,
    after: EventSeq | undefined,
    sink: EventSink,
    gap: (seq_from: EventSeq, seq_to: EventSeq) => void,
  ): Promise<Subscription>

  // public reads
  /** The same frozen objects until a status changes. */
  instruments(): readonly wire.Instrument[]
  instrument(symbol: string): wire.InstrumentView
  /** Published rows that start after `after` (unix seconds), oldest first. Throws `instrument_unknown`. */
  statistics(
    symbol: string,
    page: { after: number; limit: number; period: wire.StatisticsPeriod },
    caller?: Caller,
  ): wire.Statistics | Promise<wire.Statistics>
  treeRoot(): wire.TreeRoot | Promise<wire.TreeRoot>
  transparency(): wire.Transparency | Promise<wire.Transparency>
  status(): wire.SystemStatus
  time(): wire.ServerTime
  /**
   * The state that a leading node shows to those that follow it: its epoch and the seq of its newest durable record.
   * @throws Refusal of Availability while it may acknowledge nothing
   */
  lead(): Omit<Lead, 'nodes'>
  versions(): Versions
  /** The engine's fields of /info. */
  identity(): {
    venue: string
    config_account: string
    program_id: string
    genesis_hash: string
    generation: number
    epoch: number
    exit_delay_s: number
  }
  /** Counters, gauges and histograms for the operator's /metrics; nothing per instrument, order or account. */
  metrics(): {
    name: string
    help: string
    /** Of a histogram, each row is the count up to the bound in its label `le`. */
    type: 'counter' | 'gauge' | 'histogram'
    labels?: Record<string, string>
    value: number
  }[]

  // accounts
  /** Admits an account key, or changes limits and state, by the operator's signed record. */
  admit(request: Parsed<typeof wire.AdmissionRequest>): Promise<{ account_id: string; version: number }>
  /**
   * Sets or revokes a credential by a body that the account key signed. `account_id` is the caller's; undefined where the
   * operator posts the body.
   */
  setCredential(
    account_id: string | undefined,
    request: Parsed<typeof wire.CredentialRequest>,
  ): Promise<wire.CredentialResult>
  /** Moves a trading key to the caller's account and cancels its orders. */
  rebind(account_id: string, request: Parsed<typeof wire.RebindRequest>): Promise<wire.RebindResult>
  /** The caller's own record, once all of it is durable. */
  account(account_id: string): Promise<wire.AccountView>
  /** Every account's terms, by id, once all of it is durable. For the operator only. */
  listAccounts(): Promise<AccountSummary[]>
  /** Accepts a price signed by a source of an oracle instrument (protocol/bodies/signed_calls.ts). */
  postReference(
    price: Parsed<typeof wire.ReferencePrice>,
  ): Promise<{ symbol: string; publish_unix_ms: number; seq: JournalSeq }>
  /** Exports one batch to the auditor of the settings: a file that no one else can read. For the operator only. */
  exportBatch(name: { symbol: string; batch: number }): Promise<Uint8Array<ArrayBuffer>>
  /** Opens, pauses or closes an instrument; closing cancels its orders with `instrument_closed` and is final. */
  changeInstrument(
    change: Parsed<typeof wire.InstrumentChange>,
  ): Promise<{ symbol: string; status: 'active' | 'paused' | 'closed'; seq: JournalSeq }>
  /** Puts the next version of rules and formats in force; resolves once durable. For the operator only. */
  activate(request: Parsed<typeof wire.Activation>): Promise<{ version: number }>
  login(request: wire.TokenRequest): Promise<wire.TokenResponse>
  /** Throws token_invalid, token_expired or token_revoked. */
  authenticate(token: string): Session
  /** Resolves once it is durable that the token has ended. */
  revoke(session: Session): Promise<void>
  /** Renews the session of a live socket with a newer token of the same account. */
  refresh(session: Session, token: string): Session
  /**
   * Takes `cost` tokens from the caller's bucket; throws `rate_limited` with retry_after_ms. A node that follows takes nothing
   * for a command: the leading one does.
   */
  takeLimit(caller: Caller, cost: number, of?: 'read' | 'command'): LimitState
  /** The cost of all reads so far. A caller is charged the difference that its own read makes, also below zero. */
  readUnits(): number
  chargeRead(caller: Caller, units: number): LimitState

  // lifecycle
  /**
   * Rejects new orders from now on, finishes batches, anchors and snapshots; close() may follow. A node that follows waits for
   * the answers to requests under way and has its sockets disarmed.
   */
  drain(): Promise<void>
  /** Closes every part once; each further call awaits the first. */
  close(): Promise<void>
}

/** The venue on the node that leads, or without a cluster. */
export interface Venue extends NodeVenue {
  treeRoot(): wire.TreeRoot
  statistics(...asked: Parameters<NodeVenue['statistics']>): wire.Statistics
}
