/**
 * Runs the single writer: executes commands in arrival order, journals them in groups, and releases answers only when
 * durable. Memory may be ahead of the disk.
 */

import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type { ChainPoint, JournalSeq } from '../../protocol/units'
import type { Receipt } from '../../protocol/wire/trading'
import type { Command, CommandBody } from '../commands'
import type { Appended, GroupSigner, Journal, NewRecord } from '../journal/contract'
import { LIMITS } from '../limits'
import { encodeCommand } from '../machine/codec/command_codec'
import { execute } from '../machine/rules/execute'
import type { Answer, Env, Outcome, RefusedOutcome } from '../machine/state/outcome'
import type { State } from '../machine/state/state'
import type { ClockPort } from '../ports'
import { type ReceiptGroup, receiptsOf, receiptTreeOf } from './receipts'
import { auctionRecord, COMMAND_RECORD } from './replayer'

/** An identical resend of a deferred command, by the command's number. */
export class Resent extends Refusal {
  constructor(readonly number: number) {
    super('order_exists')
  }
}

type Accepted = Extract<Outcome, { ok: true }>
/** A command applied in memory and not yet durable. */
export type Entry = {
  /** Journal seq of the command's record; its auction records follow. */
  seq: JournalSeq
  command: Command
  outcome: Accepted
  records: NewRecord[]
  body_and_signature: Uint8Array | undefined
  settle: { resolve: (done: Sequenced) => void; reject: (error: Error) => void }
}
/** `receipt` and `group` are present for a client's command. */
type Sequenced = {
  answer: Answer
  seq: JournalSeq
  receipt: Receipt | undefined
  group: ReceiptGroup | undefined
}

/** The command waits, in memory or on disk, for the right to be released; `later` settles as if this were not given. */
export class OutcomeUnknown extends Refusal {
  constructor(readonly later: Promise<Sequenced>) {
    super('outcome_unknown')
    // Most callers ask for nothing later.
    later.catch(() => undefined)
  }
}

type SequencerPorts = {
  state: State
  env: Env
  journal: Pick<Journal, 'head' | 'append' | 'signAs'>
  clock: ClockPort
  /** Submits the commands that arrived before and are not verified yet; called first by each submit. */
  arrived: () => void
  /** Why nothing may be acknowledged now; asked after the sync and before the release of each group. */
  barred: () => RefusalCode | undefined
  /** Called with each durable entry, in seq order, before its answer is released. */
  durable: (entry: Entry) => void
  /** Called after a group was released, with the place after it; the next group waits for the promise. */
  released: (end: ChainPoint) => Promise<void> | undefined
  /** The journal failed or a decision contradicted the state: the process must exit. */
  fatal: (error: Error) => void
}

export class Sequencer {
  /** Newest record applied in memory. */
  seq_executed: JournalSeq
  /** Newest record on disk. */
  seq_durable: JournalSeq
  private queue: Entry[] = []
  private busy = false
  private epoch = 0
  /** The epoch of this process is not open: the next boot would not accept a tail with more than boot records of it. */
  private opening = false
  /** Why the group on disk is not released, once its clients were rejected for it. */
  private held: RefusalCode | undefined
  private failure: Error | undefined
  private readonly waiters = new Waiters()

  constructor(private readonly ports: SequencerPorts) {
    this.seq_executed = ports.journal.head().seq
    this.seq_durable = this.seq_executed
  }

  /** Signs every group, and with it the receipts of its commands, from now on; takes boot records alone until `opened`. */
  signAs(signer: GroupSigner): void {
    this.epoch = signer.epoch
    this.opening = true
    this.ports.journal.signAs(signer)
  }

  /** The chain shows the epoch of the signer. */
  opened(): void {
    this.opening = false
  }

  /** Executes the commands that arrived before: a decision that reads the state or the clock comes behind them. */
  arrived(): void {
    this.ports.arrived()
  }

  /**
   * Executes at once; resolves when the record is durable and released. A Refusal rejects once the state it depends on is.
   * `body_and_signature` marks a client's command and becomes a leaf of its group's receipt; such a command is rejected
   * `matching_unavailable` while too many wait for the disk, and rejects with OutcomeUnknown if its release has to wait.
   */
  submit(body: CommandBody, body_and_signature?: Uint8Array): Promise<Sequenced> {
    this.arrived()
    if (this.failure !== undefined) return Promise.reject(this.failure)
    if (this.opening && body.kind !== 'epoch_intended') {
      return Promise.reject(new Error(`${body.kind} before the epoch is open`))
    }
    // Only clients are refused: the venue's own commands (slots, hashes, exits, disconnects) are bounded by their
    // sources, which do not retry.
    if (body_and_signature !== undefined && this.queue.length >= LIMITS.queue_commands_max) {
      return Promise.reject(new Refusal('matching_unavailable', { subsystem: 'journal' }))
    }
    const unix_ms = Math.max(this.ports.clock.unixMs(), this.ports.state.unix_ms)
    const command: Command = { ...body, unix_ms }
    const outcome = this.execute(command)
    if (outcome === undefined) return Promise.reject(this.failure)
    if (!outcome.ok) return this.refuse(outcome)
    const settle = Promise.withResolvers<Sequenced>()
    this.enqueue(command, outcome, body_and_signature, settle)
    return settle.promise
  }

  /**
   * Resolves when everything executed so far is durable and released; a read computed now may be answered then. For a
   * client it rejects with the reason when the release has to wait, and with `lease_lost` where this process answers no more.
   */
  durable(client = false): Promise<void> {
    const done = this.untilDurable(client)
    if (!client || (this.failure === undefined && this.seq_durable >= this.seq_executed)) return done
    // Of a read nothing is unknown: it is asked again.
    return done.catch((error) => {
      throw error instanceof Refusal && error.code === 'outcome_unknown' ? new Refusal('lease_lost') : error
    })
  }

  private untilDurable(client: boolean): Promise<void> {
    if (this.failure !== undefined) return Promise.reject(this.failure)
    if (this.seq_durable >= this.seq_executed) return Promise.resolve()
    if (client && this.held !== undefined) return Promise.reject(new Refusal(this.held))
    return this.waiters.at(this.seq_executed, client)
  }

  /** Releases no further answer: every pending and later call rejects with `reason`. */
  stop(reason: Error): void {
    if (this.failure !== undefined) return
    this.failure = reason
    for (const entry of this.queue) entry.settle.reject(reason)
    this.queue = []
    this.waiters.rejectAll(reason)
  }

  /** Undefined once the sequencer has failed. */
  private execute(command: Command): Outcome | undefined {
    try {
      return execute(this.ports.state, command, this.ports.env)
    } catch (error) {
      this.fail(error as Error)
      return undefined
    }
  }

  private async refuse({ code, facts, number }: RefusedOutcome): Promise<never> {
    await this.untilDurable(true)
    throw number === undefined ? new Refusal(code, facts) : new Resent(number)
  }

  private enqueue(
    command: Command,
    outcome: Accepted,
    body_and_signature: Uint8Array | undefined,
    settle: Entry['settle'],
  ): void {
    const { unix_ms } = command
    const records: NewRecord[] = [{ type: COMMAND_RECORD, unix_ms, body: encodeCommand(command) }]
    for (const auction of outcome.auctions) records.push(auctionRecord(auction, unix_ms))
    this.queue.push({ seq: this.seq_executed + 1, command, outcome, records, body_and_signature, settle })
    this.seq_executed += records.length
    this.wake()
  }

  /** Writes one group at a time; commands that arrive meanwhile form the next, so disk speed sets the group size. */
  private wake(): void {
    if (this.busy || this.queue.length === 0 || this.failure !== undefined) return
    this.busy = true
    setImmediate(() => void this.write())
  }

  private async write(): Promise<void> {
    const group = this.takeGroup()
    try {
      const records: NewRecord[] = []
      const commands: Uint8Array[] = []
      for (const { records: own, body_and_signature } of group) {
        for (const record of own) records.push(record)
        if (body_and_signature !== undefined) commands.push(body_and_signature)
      }
      const tree = commands.length === 0 ? undefined : receiptTreeOf(commands)
      const appended = await this.ports.journal.append(records, tree?.root)
      if (this.ports.barred() !== undefined) await this.hold(group)
      if (this.failure !== undefined) throw this.failure
      const last = group[group.length - 1]!
      if (appended.seq_last !== last.seq + last.records.length - 1) {
        throw new Error('the journal numbers records differently')
      }
      this.release(group, appended, tree)
      await this.ports.released({ seq: appended.seq_last, head: appended.head })
    } catch (error) {
      this.fail(error as Error)
      for (const entry of group) entry.settle.reject(this.failure!)
    }
    this.busy = false
    this.wake()
  }

  private takeGroup(): Entry[] {
    let bytes = 0
    let count = 0
    for (const entry of this.queue) {
      for (const record of entry.records) bytes += record.body.length
      if (count > 0 && bytes > LIMITS.group_bytes_max) break
      count++
      // The head after a close is its commit.
      if (entry.command.kind === 'closed') break
    }
    return this.queue.splice(0, count)
  }

  /** Waits until the durable group may be released; its clients are rejected when that takes long. */
  private async hold(group: readonly Entry[]): Promise<void> {
    const { barred, clock } = this.ports
    const refused_ms = clock.monotonicMs() + LIMITS.outcome_unknown_after_ms
    for (let code = barred(); code !== undefined && this.failure === undefined; code = barred()) {
      if (this.held === undefined && clock.monotonicMs() >= refused_ms) {
        this.held = code
        for (const entry of [...group, ...this.queue]) refuseUndecided(entry)
        this.waiters.rejectClients(new Refusal(code))
      }
      await Bun.sleep(LIMITS.release_look_ms)
    }
    this.held = undefined
  }

  private release(
    group: Entry[],
    appended: Appended,
    tree: ReturnType<typeof receiptTreeOf> | undefined,
  ): void {
    const signed = tree && receiptsOf(this.epoch, appended, tree)
    this.seq_durable = appended.seq_last
    for (const entry of group) this.ports.durable(entry)
    let next = 0
    for (const { seq, outcome, body_and_signature, settle } of group) {
      const receipt = body_and_signature === undefined ? undefined : signed?.receipts[next++]
      settle.resolve({ answer: outcome.answer, seq, receipt, group: signed?.group })
    }
    this.waiters.releaseUpTo(this.seq_durable)
  }

  private fail(error: Error): void {
    if (this.failure !== undefined) return
    this.stop(new Refusal('internal'))
    this.ports.fatal(error)
  }
}

function refuseUndecided(entry: Entry): void {
  if (entry.body_and_signature === undefined) return
  const later = Promise.withResolvers<Sequenced>()
  entry.settle.reject(new OutcomeUnknown(later.promise))
  entry.settle = later
}

type Waiter = { seq: JournalSeq; client: boolean; resolve: () => void; reject: (reason: Error) => void }

/** Callers waiting for a journal seq to be durable and released, in order. */
class Waiters {
  /** Ascending by seq: callers wait for the newest executed record, which only grows. */
  private waiting: Waiter[] = []

  at(seq: JournalSeq, client: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ seq, client, resolve, reject })
    })
  }

  releaseUpTo(seq: JournalSeq): void {
    const first_later = this.waiting.findIndex((waiter) => waiter.seq > seq)
    const ready = this.waiting.splice(0, first_later === -1 ? this.waiting.length : first_later)
    for (const waiter of ready) waiter.resolve()
  }

  rejectClients(reason: Error): void {
    for (const { client, reject } of this.waiting) if (client) reject(reason)
    this.waiting = this.waiting.filter(({ client }) => !client)
  }

  rejectAll(reason: Error): void {
    for (const waiter of this.waiting.splice(0)) waiter.reject(reason)
  }
}
