/** Closes entries of the payout queue: sends `pay`, reports each outcome, and adds places before they run out. */

import type { Address } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { PAY_ENTRIES_MAX } from '../../../protocol/limits'
import type { QueueAccount } from '../../../protocol/vault/accounts'
import { growQueueInstruction, payInstruction, payUnits } from '../../../protocol/vault/settle'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, OpenPayout, OutboxPort, PayoutStage } from '../../ports'
import type { SignedTransaction } from '../client/build_transaction'
import { addressOf, type ChainClient } from '../client/chain_client'
import { Patience, supervise } from '../client/health'
import { broadcast, landInstruction, signVaultInstruction, Terms } from '../client/land_instruction'
import { readMintRecords, readQueue, type VaultReader } from '../client/read_vault'
import { type Answer, type Reader, textOf } from '../client/rpc_pool'
import type { Level } from '../client/slot_view'
import { agreedStatuses, isPayerShort } from '../client/transaction_status'
import { eventHistory, type LandedEvent, type SlotWindow, vaultEvents } from '../watch/vault_events'
import type { Verdicts } from '../watch/watcher'

type Entry = QueueAccount['entries'][number]
type Queue = QueueAccount & { slot: number }
type Flight = { numbers: number[]; signed: SignedTransaction; sent_slot: number }
/** Entries of one transaction. `refund` returns them as notes without a transfer. */
type Group = { entries: Entry[]; refund: boolean }

type PayArgs = {
  sink: Pick<ChainSinkPort, 'queueCapacity'>
  outbox: Pick<OutboxPort, 'openPayouts' | 'recordPayout'>
  verdicts: Pick<Verdicts, 'isDisowned'>
  unixMs: () => number
}

/** Nothing waits for a payment: a settlement neither needs it nor shares a transaction with it. */
export class PayLoop {
  private flights: Flight[] = []
  /** By number: every signature of this run under which it may have been closed, in base58. */
  private readonly signatures = new Map<number, string[]>()
  /** By number: the stage last reported in this run. */
  private readonly reported = new Map<number, PayoutStage>()
  /** By number: since when a quorum shows it open. */
  private readonly since_ms = new Map<number, number>()
  /** By number: the slot of the last reading in which a quorum showed it open. */
  private readonly open_slot = new Map<number, number>()
  /** By number: the slot of the first that showed it closed, and by how much its search is wider, before and after. */
  private readonly closed = new Map<number, { slot: number; wider: number }>()
  private readonly patience = new Patience<number>()
  /** Numbers whose payment the program rejected, alone in its transaction. */
  private readonly rejected = new Set<number>()
  private readonly token_programs = new Map<string, Uint8Array>()
  private readonly seen = { confirmed: [] as number[], finalized: [] as number[] }
  private capacity: number | undefined
  private crowded = false

  constructor(
    private readonly client: ChainClient,
    private readonly args: PayArgs,
  ) {
    const { health, view } = client
    const max_ms = () => LIMITS.settlement_delay_slots_max * view.slotMs()
    health.watch('payout_overdue', () =>
      [...this.since_ms.keys()].some(
        (number) => !this.rejected.has(number) && this.waitedMs(number) > max_ms(),
      ),
    )
    health.watch('payout_failing', () => this.rejected.size > 0)
  }

  /** Runs until the client closes or another instance holds the vault. */
  run(): Promise<void> {
    const { rpc, view } = this.client
    return supervise(this.client, async () => {
      await this.step()
      const slots = this.args.outbox.openPayouts().length > 0 ? 1 : LIMITS.exits_look_slots
      await rpc.sleep(slots * view.slotMs())
      return !this.args.verdicts.isDisowned()
    })
  }

  /** Keeps a third of the queue's places free; ends like `run`. */
  grow(): Promise<void> {
    const { rpc, view, vault, payer_key } = this.client
    return supervise(this.client, async () => {
      const prepare = async () => (this.crowded ? growQueueInstruction(vault.program, payer_key) : undefined)
      if (this.crowded) await landInstruction(this.client, { prepare, deadline_ms: LIMITS.exit_end_max_ms })
      await rpc.sleep(2 * LIMITS.exits_look_slots * view.slotMs())
      return !this.args.verdicts.isDisowned()
    })
  }

  private async step(): Promise<void> {
    const [finalized, confirmed] = await Promise.all([this.read('finalized'), this.read('confirmed')])
    const { quorum } = this.client.rpc
    if (finalized.length < quorum || confirmed.length < quorum) return
    await this.noteCapacity(finalized, confirmed)
    const payouts = this.args.outbox.openPayouts()
    const numbers = payouts.map(({ number }) => number)
    this.forget(new Set(numbers))
    await this.followFlights()
    await this.report(payouts, finalized, confirmed)
    const open = numbers.flatMap((number) => this.openEntry(confirmed, number) ?? [])
    const open_slot = Math.min(...confirmed.map(({ value }) => value.slot))
    for (const { number } of open) this.open_slot.set(number, open_slot)
    await this.pay(open)
  }

  private async read(level: 'confirmed' | 'finalized'): Promise<Answer<Queue>[]> {
    const { rpc, view, address } = this.client
    const answers = await rpc.all((reader) => readQueue({ rpc: reader, address }, level))
    return view.fresh(level, answers, this.seen[level])
  }

  private async noteCapacity(
    finalized: readonly Answer<Queue>[],
    confirmed: readonly Answer<Queue>[],
  ): Promise<void> {
    const { rpc } = this.client
    const crowded = rpc.majority(confirmed, (queue) => String(isCrowded(queue)))
    this.crowded = crowded !== undefined && isCrowded(crowded[0]!.value)
    const [agreed] = rpc.majority(finalized, (queue) => String(queue.capacity)) ?? []
    if (agreed === undefined || agreed.value.capacity === this.capacity) return
    const { capacity } = agreed.value
    await this.args.sink.queueCapacity(capacity)
    this.capacity = capacity
  }

  private forget(open: ReadonlySet<number>): void {
    this.patience.keep(open)
    const { signatures, reported, since_ms, open_slot, closed, rejected } = this
    for (const kept of [signatures, reported, since_ms, open_slot, closed, rejected]) {
      for (const number of kept.keys()) if (!open.has(number)) kept.delete(number)
    }
  }

  /** The entry as a quorum shows it open at one place. */
  private openEntry(answers: readonly Answer<Queue>[], number: number): Entry | undefined {
    const shown = answers.map(({ at, value }) => ({ at, value: stateOf(value, number) }))
    const [agreed] = this.client.rpc.majority(shown, keyOfState) ?? []
    return typeof agreed?.value === 'object' ? agreed.value : undefined
  }

  private isClosed(answers: readonly Answer<Queue>[], number: number): boolean {
    const closed = answers.filter(({ value }) => stateOf(value, number) === 'closed')
    return closed.length >= this.client.rpc.quorum
  }

  /** Reports the outcome of closed entries, and entries that a fork opened again. */
  private async report(
    payouts: readonly OpenPayout[],
    finalized: readonly Answer<Queue>[],
    confirmed: readonly Answer<Queue>[],
  ): Promise<void> {
    const due = { confirmed: [] as OpenPayout[], finalized: [] as OpenPayout[] }
    const newest = Math.max(...confirmed.map(({ value }) => value.slot))
    for (const payout of payouts) {
      const { number } = payout
      const known = this.reported.get(number)
      if (this.isClosed(confirmed, number)) {
        this.since_ms.delete(number)
        if (!this.closed.has(number)) this.closed.set(number, { slot: newest, wider: 0 })
        const level = this.isClosed(finalized, number) ? 'finalized' : 'confirmed'
        if (known?.stage !== level) due[level].push(payout)
      } else {
        this.closed.delete(number)
        if (known?.stage === 'confirmed')
          await this.record({ ...openAgain(known), slot: this.client.view.now().slot })
      }
    }
    for (const level of ['finalized', 'confirmed'] as const)
      if (due[level].length > 0) await this.reportClosed(due[level], level, newest)
  }

  /** Searches from the last slot that showed an entry open to the first that showed it closed. */
  private async reportClosed(
    payouts: readonly OpenPayout[],
    level: 'confirmed' | 'finalized',
    newest: number,
  ): Promise<void> {
    const numbers = payouts.map(({ number }) => number)
    const signatures = payouts.flatMap(({ number, signature }) => {
      return [...(signature ? [signature] : []), ...(this.signatures.get(number) ?? [])]
    })
    const ends = numbers.map((number) => ({
      open: this.open_slot.get(number) ?? 0,
      ...this.closed.get(number)!,
    }))
    const window = {
      from: Math.min(...ends.map(({ open, wider }) => open - wider)),
      to: Math.max(...ends.map(({ slot, wider }) => slot + wider)),
    }
    const tried = [...new Set(signatures)].map((text) => decodeBase58(text, 64)!)
    const { stages, whole } = await agreedPaid(this.client, numbers, tried, level, window)
    for (const stage of stages) await this.record(stage)
    const found = new Set(stages.map(({ number }) => number))
    // The queue was shown falsely, or its history lags: the search reaches as far as the truth is old.
    for (const number of whole ? numbers : []) {
      const closed = this.closed.get(number)!
      if (!found.has(number)) closed.wider = Math.max(closed.wider, newest - closed.slot)
    }
  }

  private async record(stage: PayoutStage): Promise<void> {
    if (await this.args.outbox.recordPayout(stage)) this.reported.set(stage.number, stage)
  }

  /** Rebroadcasts transactions that no block contains yet, and drops ended ones. */
  private async followFlights(): Promise<void> {
    if (this.flights.length === 0) return
    const { view, health } = this.client
    const height = view.agreed('height')
    const statuses = await agreedStatuses(
      this.client,
      this.flights.map(({ signed }) => signed.signature),
    )
    const { slot } = view.now()
    const flying: Flight[] = []
    for (const [at, flight] of this.flights.entries()) {
      const status = statuses[at]!
      if (status.kind === 'failed') {
        if (isPayerShort(status.failure)) health.set('fee_payer_low', true)
        for (const number of flight.numbers) this.patience.failed(number, slot)
        const [alone, ...others] = flight.numbers
        if (status.failure.kind === 'program' && others.length === 0) this.rejected.add(alone!)
      } else if (status.kind === 'executed') {
        if (!status.final) flying.push(flight)
      } else if (height <= flight.signed.last_valid_block_height) {
        flying.push(flight)
        if (slot - flight.sent_slot >= LIMITS.rebroadcast_slots) {
          flight.sent_slot = slot
          await broadcast(this.client, flight.signed.wire)
        }
      }
    }
    this.flights = flying
  }

  private async pay(open: readonly Entry[]): Promise<void> {
    const { view } = this.client
    const { slot } = view.now()
    for (const { number } of open)
      if (!this.since_ms.has(number)) this.since_ms.set(number, view.options.monotonicMs())
    const flying = new Set(this.flights.flatMap(({ numbers }) => numbers))
    const due = open.filter(({ number }) => !flying.has(number) && this.patience.mayTry(number, slot))
    if (due.length === 0) return
    const terms = await Terms.read(this.client, 0)
    const room = LIMITS.payments_in_flight_max - this.flights.length
    for (const group of (await this.grouped(due)).slice(0, Math.max(0, room))) await this.send(group, terms)
  }

  /** Large and unknown destinations, and entries that failed before, each have a separate transaction. */
  private async grouped(due: readonly Entry[]): Promise<Group[]> {
    const small = await this.smallDestinations(due)
    const isAlone = (entry: Entry) =>
      this.patience.count(entry.number) > 0 || !small.has(toHex(entry.destination))
    const groups = due
      .filter(isAlone)
      .map((entry): Group => ({ entries: [entry], refund: this.mayRefund(entry) }))
    const others = due.filter((entry) => !isAlone(entry))
    for (let at = 0; at < others.length; at += PAY_ENTRIES_MAX)
      groups.push({ entries: others.slice(at, at + PAY_ENTRIES_MAX), refund: false })
    return groups
  }

  /** Its transfer failed, and it is old enough for the program to return it as a note. */
  private mayRefund({ number, queued_at_s }: Entry): boolean {
    return (
      this.rejected.has(number) && this.args.unixMs() >= (queued_at_s + LIMITS.payout_refund_after_s) * 1_000
    )
  }

  private async smallDestinations(due: readonly Entry[]): Promise<Set<string>> {
    const { rpc } = this.client
    const small = new Set<string>()
    for (let first = 0; first < due.length; first += LIMITS.rpc_accounts_max) {
      const some = due.slice(first, first + LIMITS.rpc_accounts_max)
      const addresses = some.map(({ destination }): Address => addressOf(destination))
      const config = {
        commitment: 'confirmed',
        encoding: 'base64',
        dataSlice: { offset: 0, length: 0 },
      } as const
      const { value } = await rpc.read((endpoint, abortSignal) =>
        endpoint.getMultipleAccounts(addresses, config).send({ abortSignal }),
      )
      for (const [at, account] of value.entries()) {
        if (account && account.space <= LIMITS.payout_destination_bytes_max)
          small.add(toHex(some[at]!.destination))
      }
    }
    return small
  }

  private async send({ entries, refund }: Group, terms: Terms): Promise<void> {
    const { client } = this
    const named = []
    for (const { place, number, mint, destination } of entries)
      named.push({ place, number, mint, destination, token_program: await this.tokenProgram(mint) })
    const instruction = payInstruction({ program: client.vault.program, refund, entries: named })
    const waited_ms = Math.max(...entries.map(({ number }) => this.waitedMs(number)))
    const limits = { compute_units: payUnits(entries.length), waited_ms }
    const built = await signVaultInstruction(client, instruction, terms, limits)
    if ('failure' in built) throw new RangeError('the payments fit no transaction')
    const { signed } = built
    const numbers = entries.map(({ number }) => number)
    const { slot } = client.view.now()
    const { signature } = signed
    for (const number of numbers) {
      this.signatures.set(number, [...(this.signatures.get(number) ?? []), encodeBase58(signature)])
      await this.record({ number, stage: 'submitted', outcome: undefined, signature, slot })
    }
    this.flights.push({ numbers, signed, sent_slot: slot })
    await broadcast(client, signed.wire)
  }

  private waitedMs(number: number): number {
    const since_ms = this.since_ms.get(number)
    return since_ms === undefined ? 0 : this.client.view.options.monotonicMs() - since_ms
  }

  /** A registered mint never changes. */
  private async tokenProgram(mint: Uint8Array): Promise<Uint8Array> {
    const { rpc, address } = this.client
    if (!this.token_programs.has(toHex(mint))) {
      const read = async (reader: Reader) =>
        (await readMintRecords({ rpc: reader, address })).map(({ record }) => record)
      const keyOf = (records: { mint: Uint8Array; token_program: Uint8Array }[]) =>
        records.map((one) => `${toHex(one.mint)} ${toHex(one.token_program)}`).join()
      for (const record of await rpc.agree(read, keyOf))
        this.token_programs.set(toHex(record.mint), record.token_program)
    }
    const program = this.token_programs.get(toHex(mint))
    if (!program) throw new RangeError('the queue names a mint that the vault does not have')
    return program
  }
}

/** `absent`: not queued yet, or no longer after a fork. */
function stateOf({ entries, next_number }: QueueAccount, number: number): Entry | 'closed' | 'absent' {
  const entry = entries.find((one) => one.number === number)
  if (entry) return entry
  return number < next_number ? 'closed' : 'absent'
}

function keyOfState(state: Entry | 'closed' | 'absent'): string {
  if (typeof state === 'string') return state
  return `${state.place} ${toHex(state.mint)} ${toHex(state.destination)}`
}

function openAgain({ number, signature }: PayoutStage): Omit<PayoutStage, 'slot'> {
  return { number, stage: 'submitted', outcome: undefined, signature }
}

function isCrowded({ capacity, entries }: QueueAccount): boolean {
  return capacity < LIMITS.queue_capacity_max && 3 * (capacity - entries.length) < capacity
}

/** `whole`: no gap ended the search. */
type Found = { stages: Map<number, PayoutStage>; whole: boolean }

/**
 * Outcomes of closed payouts as a quorum of providers shows them, in the order of `numbers`. Tries `signatures` first, then
 * the history of the queue in `window`, because anyone may pay. Omits a payout of which no quorum serves the transaction;
 * `whole` means that a quorum serves all of the window, so that it is not there.
 * @throws ChainUnavailable
 */
async function agreedPaid(
  { rpc, address, health }: Pick<ChainClient, 'rpc' | 'address' | 'health'>,
  numbers: readonly number[],
  signatures: readonly Uint8Array[],
  level: Level,
  window: SlotWindow,
): Promise<{ stages: PayoutStage[]; whole: boolean }> {
  const answers = await rpc.all((reader) =>
    findPaid({ rpc: reader, address }, numbers, signatures, level, window),
  )
  const stages = numbers.flatMap((number) => {
    const votes = answers.map(({ at, value }) => ({ at, value: value.stages.get(number) }))
    return health.decide('paid', votes, textOf, (stage) => stage === undefined) ?? []
  })
  return { stages, whole: answers.filter(({ value }) => value.whole).length >= rpc.quorum }
}

async function findPaid(
  client: VaultReader,
  numbers: readonly number[],
  signatures: readonly Uint8Array[],
  level: Level,
  window: SlotWindow,
): Promise<Found> {
  const stages: Found['stages'] = new Map()
  const wanted = new Set(numbers)
  for (const signature of signatures) {
    take(stages, wanted, await vaultEvents(client, signature, level), level)
    if (wanted.size === 0) return { stages, whole: true }
  }
  const history = eventHistory(client, client.address.queue, level, window)
  while (wanted.size > 0) {
    const { done, value: events } = await history.next()
    if (done) return { stages, whole: events }
    take(stages, wanted, events, level)
    // A payout is closed after it was queued.
    for (const { event } of events)
      if (event.kind === 'settled') for (const { number } of event.payouts) wanted.delete(number)
  }
  return { stages, whole: true }
}

/** Moves the payouts that `events` close from `wanted` to `found`. */
function take(
  found: Found['stages'],
  wanted: Set<number>,
  events: LandedEvent[] | undefined,
  stage: Level,
): void {
  for (const { event, signature, slot } of events ?? []) {
    if (event.kind !== 'paid' || !wanted.delete(event.number)) continue
    const { number, refund } = event
    const closed = { number, stage, signature, slot }
    found.set(
      number,
      refund
        ? {
            ...closed,
            outcome: 'refunded',
            refund_commitment: refund.commitment,
            refund_leaf_index: refund.leaf_index,
          }
        : { ...closed, outcome: 'paid' },
    )
  }
}
