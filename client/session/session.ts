/**
 * A trader's session: verified venue, own account, wallet and events in one. Every request is in the wallet's file before
 * it is sent, and stays there until its outcome is.
 */
import { accountIdOf } from '../../protocol/bodies/account'
import { toHex } from '../../protocol/bytes'
import { deriveAccountKey } from '../../protocol/notes/derive'
import { publicKeyOf } from '../../protocol/sign'
import type {
  AccountEvent,
  CancelAllResult,
  CancelResult,
  DeadManResult,
  Instrument,
  ModifyResult,
  PlaceResult,
  Receipt,
  Reshape,
  Withdrawal,
} from '../../protocol/wire/trading'
import { type EventStream, EventsMissing, followEvents } from '../api/event_stream'
import { VenueClient, VenueProblem, WrongAccount } from '../api/venue_client'
import { connect } from '../connect'
import { MERGE_MAX_MS, ORDER_LIFE_SLOTS, SESSION_SAVE_MS, SETTLE_PATIENCE_MS } from '../limits'
import { absorbEvent, alignCounters, joinVenue } from '../wallet/absorb'
import {
  collateralOf,
  commandBytes,
  type OrderTerms,
  prepareCancel,
  prepareCancelAll,
  prepareDeadMan,
  prepareModify,
  preparePlace,
  prepareReshape,
  prepareWithdrawal,
  type SentCommand,
  unsignedPlace,
} from '../wallet/prepare'
import type { Wallet, WalletNote, WalletRequest } from '../wallet/wallet'
import { openWalletFile, type WalletStore } from '../wallet/wallet_file'
import { LiveVenue, policyOf } from './live_venue'
import {
  cancelId,
  coveringNote,
  drop,
  dueFor,
  exactTerms,
  isUndecidable,
  keyOf,
  mergeable,
  notesFor,
  total,
  undecidableBefore,
} from './notes'
import {
  NoNote,
  SessionEnded,
  type SessionOptions,
  type SessionOrder,
  type SessionWithdrawal,
} from './session_options'
import { findAccepted, type Outcome, settleRequest, untilServed } from './settle'

type Options = { merge?: boolean }
type Prepared = SentCommand & { id: string; key_index: number }

export class Session {
  readonly client: VenueClient
  private readonly instruments = new Map<string, Instrument>()
  /** Requests of one key are sent one after the other: a later nonce would void an earlier one. */
  private readonly lanes = new Map<number, Promise<unknown>>()
  /** Requests under way, by id: one that is sent is not sent for a second caller. */
  private readonly under_way = new Map<string, Promise<Outcome>>()
  /** Epochs in which this session first sent its open requests. */
  private readonly sent_in = new Map<string, bigint>()
  private readonly waiters = new Set<() => void>()
  private stream: EventStream | undefined
  private unsaved: ReturnType<typeof setTimeout> | undefined
  private over: { reason: unknown } | undefined
  private receipt_seq = 0
  private passed_to: number
  private closed = false

  private constructor(
    readonly wallet: Wallet,
    private readonly store: WalletStore,
    private readonly venue: LiveVenue,
    private readonly options: SessionOptions,
  ) {
    this.client = new VenueClient(venue, options.login)
    this.passed_to = wallet.state.seq
  }

  /**
   * Verifies the venue, logs in to the account of the wallet's own seed, takes over what the venue knows of open requests
   * and follows the account's events. What the venue cannot serve for a moment (503, or `quote_busy`) is asked again within the patience.
   * @throws VerificationFailed, WrongAccount, WalletOfOtherVault, WalletOutdated, NotAWallet, WalletLocked, InUse, VenueProblem
   */
  static async open(options: SessionOptions): Promise<Session> {
    const { wallet: kept, password } = options
    const store = typeof kept === 'string' ? openWalletFile(kept, password) : kept
    try {
      return await Session.start(store, options)
    } catch (error) {
      store.close?.()
      throw error
    }
  }
  private static async start(store: WalletStore, options: SessionOptions): Promise<Session> {
    const { wallet } = store
    const own_id = accountIdOf(publicKeyOf(deriveAccountKey(wallet.seed)))
    if (options.login.account_id !== (options.account_id ?? own_id)) throw new WrongAccount()
    const { url, policy, connect: how } = options
    const verify = options.open_venue ?? (async () => connect(url, policyOf(policy), how))
    const venue = await LiveVenue.open(verify, store.receipts, [url].flat().length > 1)
    const session = new Session(wallet, store, venue, options)
    try {
      await untilServed(options.patience_ms ?? SETTLE_PATIENCE_MS, () => session.takeOver())
    } catch (error) {
      session.end(undefined)
      throw error
    }
    session.follow()
    return session
  }

  /** Requests whose outcome is not known. */
  get open_requests(): readonly WalletRequest[] {
    return this.wallet.state.requests ?? []
  }
  /** 32 bytes. */
  get venue_id(): Uint8Array {
    return this.venue.identity.venue
  }

  /**
   * Places an order on the smallest note that covers it, after a merge of notes when none does (`merge: false`: not).
   * @throws InexactValue, NoNote; NotWritten when nothing was sent; SessionEnded
   */
  async place(order: SessionOrder, { merge = true }: Options = {}): Promise<Outcome<PlaceResult>> {
    const terms = await this.termsOf(order)
    const needed = collateralOf(terms)
    if (merge) await this.mergeFor(needed.mint, needed.amount)
    return this.submit(() => {
      const note = coveringNote(this.wallet, needed)
      const request = preparePlace(this.wallet, this.venue_id, terms, note)
      return { kind: 'place', id: request.order_id, key_index: note.key_index, request }
    })
  }

  /**
   * The effect of `place`, with nothing changed or sent: the free note, or the notes that it would merge first.
   * @throws InexactValue, NoNote
   */
  async plan(order: SessionOrder) {
    const terms = await this.termsOf(order)
    const needed = collateralOf(terms)
    const notes = notesFor(this.wallet, needed)
    const unsigned = notes.length > 1 ? undefined : unsignedPlace(this.wallet, terms, notes[0]!)
    return { terms, needed, notes, unsigned }
  }
  /** The same of `withdraw`. `needed` includes the mint's fee. @throws as `plan`, RangeError for another mint */
  async planWithdrawal(to: Pick<SessionWithdrawal, 'mint' | 'amount'>) {
    const { amount, needed } = await dueFor(this.client, to)
    return { amount, needed, notes: notesFor(this.wallet, needed) }
  }

  /** @throws RangeError for an order that is not in the wallet, NotWritten when nothing was sent, SessionEnded */
  async cancel(order_id: string): Promise<Outcome<CancelResult>> {
    return this.submit(() => {
      const key_index = keyOf(this.wallet, order_id)
      const request = prepareCancel(this.wallet, this.venue_id, order_id, key_index)
      return { kind: 'cancel', id: cancelId(request), key_index, order_id, request }
    })
  }

  /**
   * Cancels all orders of a trading key, or those in one instrument: one request per key.
   * @throws NotWritten when nothing was sent, SessionEnded
   */
  cancelAll(key_index = 0, symbol?: string): Promise<Outcome<CancelAllResult>> {
    return this.submit(() => {
      const request = prepareCancelAll(this.wallet, this.venue_id, key_index, symbol)
      return { kind: 'cancel_all', id: cancelId(request), key_index, request }
    })
  }

  /**
   * The venue cancels all orders of a trading key unless another timer follows within `timeout_slots`; 0 disarms it.
   * @throws as `cancelAll`
   */
  deadMan(timeout_slots: number, key_index = 0): Promise<Outcome<DeadManResult>> {
    return this.submit(() => {
      const request = prepareDeadMan(this.wallet, this.venue_id, key_index, timeout_slots)
      return { kind: 'dead_man', id: cancelId(request), key_index, request }
    })
  }

  /** Replaces an open order on the note that backs it, both or neither. @throws as `place` and `cancel` */
  async modify(order_id: string, order: SessionOrder): Promise<Outcome<ModifyResult>> {
    const terms = await this.termsOf(order)
    return this.submit(() => {
      const key_index = keyOf(this.wallet, order_id)
      const request = prepareModify(this.wallet, this.venue_id, order_id, terms)
      return { kind: 'modify', id: request.replacement.order_id, key_index, order_id, request }
    })
  }

  /** Pays out of one note; the mint's fee is added to the amount. @throws as `place` */
  async withdraw(to: SessionWithdrawal, { merge = true }: Options = {}): Promise<Outcome<Withdrawal>> {
    const { mint, destination, life_slots } = to
    const { amount, needed } = await dueFor(this.client, to)
    const expiry_slot = await this.expiry(life_slots)
    if (merge) await this.mergeFor(mint, needed.amount)
    return this.submit(() => {
      const note = coveringNote(this.wallet, needed)
      const request = prepareWithdrawal(this.wallet, this.venue_id, note, {
        destination,
        amount,
        expiry_slot,
      })
      const id = this.wallet.state.payments.at(-1)!.id
      return { kind: 'withdraw', id, key_index: note.key_index, request }
    })
  }

  /** Merges up to four notes of one key and mint, or splits one. @throws as `place` */
  async reshape(
    notes: readonly WalletNote[],
    amounts: bigint[],
    life_slots?: number,
  ): Promise<Outcome<Reshape>> {
    const expiry_slot = await this.expiry(life_slots)
    const commitments = notes.map(({ commitment }) => commitment)
    return this.submit(() => {
      const own = commitments.map((commitment) => this.wallet.note(commitment))
      const free = own.filter((note): note is WalletNote => note?.state === 'free')
      if (free.length === 0 || free.length < own.length) throw new RangeError('a note is not free')
      const request = prepareReshape(this.wallet, this.venue_id, free, { amounts, expiry_slot })
      const id = this.wallet.state.payments.at(-1)!.id
      return { kind: 'reshape', id, key_index: free[0]!.key_index, request }
    })
  }

  /**
   * Continues a request whose outcome was unknown: sends its bytes again until the venue reports its outcome.
   * @throws RangeError when no such request is open, SessionEnded
   */
  async settle(id: string): Promise<Outcome> {
    const sent = this.open_requests.find((one) => one.id === id)
    if (sent === undefined) throw notOpen()
    return this.inLane(sent, true)
  }

  /** Resolves with the first value of `find` that is not undefined; it is asked again after each event. @throws SessionEnded */
  until<Value>(find: (wallet: Wallet) => Value | undefined): Promise<Value> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const value = find(this.wallet)
        if (value === undefined && this.over === undefined) return
        this.waiters.delete(look)
        if (value === undefined) reject(this.ended())
        else resolve(value)
      }
      this.waiters.add(look)
      look()
    })
  }

  /** Saves the wallet and ends the stream; requests under way end as unknown. @throws NotWritten */
  close(): void {
    this.end(undefined)
    if (this.closed) return
    this.closed = true
    try {
      this.store.save(this.wallet)
    } finally {
      this.store.close?.()
    }
  }

  // Requests.

  private async submit<Result>(prepare: () => Prepared): Promise<Outcome<Result>> {
    if (this.over !== undefined) throw this.ended()
    const sent = this.saved(() => {
      const request: WalletRequest = { ...prepare(), after_seq: this.receipt_seq }
      this.wallet.state.requests = [...this.open_requests, request]
      return request
    })
    return this.inLane(sent, false) as Promise<Outcome<Result>>
  }

  private inLane(sent: WalletRequest, sent_before: boolean): Promise<Outcome> {
    const known = this.under_way.get(sent.id)
    if (known !== undefined) return known
    const before = this.lanes.get(sent.key_index) ?? Promise.resolve()
    const outcome = before
      .then(() => this.run(sent, sent_before))
      .finally(() => this.under_way.delete(sent.id))
    this.under_way.set(sent.id, outcome)
    this.lanes.set(
      sent.key_index,
      outcome.catch(() => undefined),
    )
    return outcome
  }

  private async run(sent: WalletRequest, sent_before: boolean): Promise<Outcome> {
    for (const before of undecidableBefore(sent, this.open_requests)) {
      const outcome = await this.outcomeOf(before, true)
      // Once a later nonce is used, the venue can no longer decide it.
      if (outcome.status === 'unknown') return { ...outcome, id: sent.id }
    }
    return this.outcomeOf(sent, sent_before)
  }

  private async outcomeOf(sent: WalletRequest, sent_before: boolean): Promise<Outcome> {
    if (this.over !== undefined) return { status: 'unknown', id: sent.id, cause: this.ended() }
    // Settled for the request before this one.
    if (!this.open_requests.some(({ id }) => id === sent.id)) throw notOpen()
    const { patience_ms = SETTLE_PATIENCE_MS } = this.options
    if (!sent_before) this.sent_in.set(sent.id, this.venue.identity.epoch)
    const epoch = this.sent_in.get(sent.id) ?? 0n
    const outcome = await settleRequest(this.client, sent, {
      patience_ms,
      sent_before,
      isOver: () => this.over !== undefined,
      isAwaited: (order_id) => this.open_requests.some(({ id }) => id === order_id),
      isSameProcess: () => this.venue.isInEpoch(epoch),
    })
    return this.conclude(sent, outcome, epoch)
  }

  /** Saves an outcome that no later read shows before it is returned: after a crash the request would be sent again. */
  private async conclude(sent: WalletRequest, outcome: Outcome, epoch: bigint): Promise<Outcome> {
    if (outcome.status === 'unknown') return outcome
    const accepted = outcome.status === 'accepted'
    const receipt = accepted ? await this.receiptOf(sent, outcome.result, epoch) : undefined
    const told = receipt === undefined ? outcome : { ...outcome, receipt }
    if (accepted && !isUndecidable(sent)) {
      this.forget(sent)
      this.saveSoon()
      return told
    }
    try {
      this.saved(() => {
        this.forget(sent)
        if (!accepted) drop(this.wallet, sent)
      })
      return told
    } catch (cause) {
      return { status: 'unknown', id: sent.id, cause }
    }
  }

  private forget(sent: WalletRequest): void {
    this.sent_in.delete(sent.id)
    this.wallet.state.requests = this.open_requests.filter((one) => one.id !== sent.id)
  }

  /** @throws ReceiptRefused; the outcome stays open then */
  private async receiptOf(sent: WalletRequest, result: unknown, epoch: bigint): Promise<Receipt | undefined> {
    const { receipt } = Object(result) as { receipt?: Receipt }
    if (receipt === undefined) return undefined
    const command = commandBytes(this.venue_id, sent)
    if (!(await this.venue.hasVerified(receipt, command, { ...sent, epoch }))) return undefined
    this.receipt_seq = Math.max(this.receipt_seq, receipt.seq)
    this.store.receipts?.keep({ id: sent.id, command: toHex(command), receipt })
    return receipt
  }

  /** Changes the wallet and saves it, both or neither. @throws NotWritten, or the error of `change` */
  private saved<Value>(change: () => Value): Value {
    if (this.over !== undefined) throw this.ended()
    const before = structuredClone(this.wallet.state)
    try {
      const value = change()
      this.store.save(this.wallet)
      return value
    } catch (error) {
      for (const name of Object.keys(this.wallet.state))
        delete (this.wallet.state as Record<string, unknown>)[name]
      Object.assign(this.wallet.state, before)
      throw error
    }
  }

  private saveSoon(): void {
    // The file may be another session's by now.
    if (this.over !== undefined) return
    this.unsaved ??= setTimeout(() => {
      this.unsaved = undefined
      try {
        this.store.save(this.wallet)
      } catch {
        // The venue sends unsaved events again; the next request reports the disk.
        this.saveSoon()
      }
    }, SESSION_SAVE_MS)
  }

  // Terms and notes.

  private async termsOf(order: SessionOrder): Promise<OrderTerms> {
    const instrument = await this.instrument(order.symbol)
    const terms = exactTerms(instrument, order)
    return { ...terms, expiry_slot: await this.expiry(order.life_slots) }
  }

  private async instrument(symbol: string): Promise<Instrument> {
    const known = this.instruments.get(symbol) ?? (await this.client.instrument(symbol))
    this.instruments.set(symbol, known)
    return known
  }
  private async expiry(life_slots = ORDER_LIFE_SLOTS): Promise<number> {
    return (await this.client.time()).slot + life_slots
  }

  /** Merges notes until one covers `amount`; each merge waits for its settlement. @throws NoNote, also when that takes too long */
  private async mergeFor(mint: string, amount: bigint): Promise<void> {
    const deadline = performance.now() + MERGE_MAX_MS
    const isLate = () => performance.now() >= deadline
    const late = setTimeout(() => this.wake(), MERGE_MAX_MS)
    try {
      while (this.wallet.noteFor(mint, amount) === undefined) {
        const notes = mergeable(this.wallet.freeNotes(mint), amount)
        if (notes === undefined || isLate()) throw new NoNote(mint, amount)
        const merged = await this.reshape(notes, [total(notes)])
        if (merged.status !== 'accepted') throw new NoNote(mint, amount)
        await this.until(() => this.final.has(merged.id) || isLate() || undefined)
      }
    } finally {
      clearTimeout(late)
    }
  }
  /** Reshapes that ended. */
  private readonly final = new Set<string>()

  // Events.

  /** Counters that the venue has seen, and open requests that it shows. */
  private async takeOver(): Promise<void> {
    joinVenue(this.wallet, this.venue.info)
    for (const key_index of this.wallet.state.keys.keys()) {
      const nonces = await this.client.nonces(this.wallet.tradingKeyText(key_index))
      alignCounters(this.wallet, key_index, nonces)
    }
    for (const sent of this.open_requests) {
      const found = await findAccepted(this.client, sent).catch((error: unknown) => {
        if (error instanceof VenueProblem) return undefined
        throw error
      })
      if (found !== undefined) await this.conclude(sent, found, 0n)
    }
  }

  private follow(): void {
    this.stream = followEvents(this.client, this.wallet.state.seq, {
      event: (event) => this.absorb(event),
      gap: (seq_from, seq_to) => this.passOver(seq_from, seq_to),
      connection: (connected) => this.options.connection?.(connected),
      ended: (reason) => this.end(reason),
    })
  }
  private async absorb(event: AccountEvent): Promise<void> {
    if (event.seq === this.passed_to + 1) this.wallet.state.seq = this.passed_to
    absorbEvent(this.wallet, this.venue.info.generation, event)
    this.saveSoon()
    const is_final = ['reshape.finalized', 'reshape.voided'].includes(event.kind)
    if (is_final) this.final.add((event.data as Reshape).reshape_id)
    await this.options.event?.(event)
    this.wake()
  }
  /** A wallet that waits for nothing misses nothing; its position moves with the event that follows. @throws EventsMissing */
  private passOver(seq_from: number, seq_to: number): void {
    const { notes, orders } = this.wallet.state
    if (seq_to <= this.passed_to) return
    const asked = this.open_requests.length + this.waiters.size > 0
    if (asked || orders.some(({ open }) => open) || notes.some(({ state }) => state === 'pending'))
      throw new EventsMissing(seq_from, seq_to)
    this.passed_to = seq_to
  }

  private end(reason: unknown): void {
    if (this.over !== undefined) return
    this.over = { reason }
    clearTimeout(this.unsaved)
    this.stream?.close()
    this.wake()
    if (reason !== undefined) this.options.ended?.(reason)
  }
  private readonly ended = (): SessionEnded => new SessionEnded(this.over?.reason)
  private wake(): void {
    for (const look of [...this.waiters]) look()
  }
}

const notOpen = (): RangeError => new RangeError('no such request is open')
