/** Closes a batch at its slot, has the chain decide it, journals the decision, and completes the answers that wait for it. */
import { Refusal } from '../../protocol/refusals'
import type { JournalSeq, SlotNumber } from '../../protocol/units'
import type { Receipt } from '../../protocol/wire/trading'
import type { EngineConfig } from '../config'
import { LIMITS } from '../limits'
import { dueInstruments } from '../machine/rules/decide_batch'
import { nextClose } from '../machine/state/instrument'
import type { Answer, RefusedOutcome } from '../machine/state/outcome'
import { type State, settingsOf } from '../machine/state/state'
import type { BatchDecision, ChainPort, ClockPort } from '../ports'
import type { Answers } from '../venue'
import type { BatchSeed } from './seeds'
import type { Entry, Sequencer } from './sequencer'

type Parts = {
  state: State
  sequencer: Sequencer
  chain: ChainPort
  clock: ClockPort
  seedOf: BatchSeed
  config: Pick<EngineConfig, 'commit_ms' | 'reopen_slots'>
  /** Why nothing may be matched now. */
  barred: () => unknown
  /** Stops this instance: the chain holds a newer commit, of another instance if of a later epoch. */
  disown: (reason: 'forked' | 'rolled_back') => void
  fatal: (error: Error) => void
}

/** The answer of a deferred command until its effect, with the receipt of its group. */
type Pending = { result: object; receipt: Receipt }

export class Closing {
  /** When the newest slot came; undefined before the first. */
  private slot_ms: number | undefined
  private draining = false
  private stopped = false
  private readonly pending = new Map<number, Pending>()
  /** The effects of the batch decided last; its answers in `pending` are as old. */
  private effects: ReadonlyMap<number, Answer | RefusedOutcome> = new Map()
  private waiting: (() => void)[] = []

  constructor(private readonly parts: Parts) {}

  /** Applies a newer slot and closes the batch that is due then. */
  slot(slot: SlotNumber): Promise<unknown> {
    const { state, sequencer, config } = this.parts
    // Orders that arrived before are judged by the slot before, and by its age.
    sequencer.arrived()
    const before = state.slot
    const reopens_slot = this.isStalled(slot) ? slot + config.reopen_slots : 0
    const applied = sequencer.submit({ kind: 'slot', slot, reopens_slot })
    if (state.slot === slot && nextClose(state, before) <= slot && !this.draining) this.close()
    return applied
  }

  /** While new orders wait after a stall: from this slot on they are accepted, 0 while no slot comes. */
  reopensSlot(): SlotNumber | undefined {
    const { slot, reopens_slot } = this.parts.state
    if (this.isLate()) return 0
    return slot < reopens_slot ? reopens_slot : undefined
  }

  /** Whether no slot has come for too long: orders that are accepted now would meet a book that others may have seen age. */
  private isLate(): boolean {
    const { chain, clock } = this.parts
    if (this.slot_ms === undefined) return false
    return clock.monotonicMs() - this.slot_ms > stallMs(LIMITS.stall_slots, chain.view().slot_ms)
  }

  /** The record of the close is durable and the last of its group, so the journal's head is the commit. */
  closedDurable(seq: JournalSeq, head: { seq: JournalSeq; head: Uint8Array }): void {
    if (head.seq !== seq) throw new Error('records follow a close in its group')
    void this.decide({ ...head, slot: this.parts.state.closed!.slot })
  }

  /** Commands that waited for the batch have acted. */
  decidedDurable({ seq, outcome: { effects } }: Pick<Entry, 'seq' | 'outcome'>): void {
    this.parts.chain.matched(seq)
    // A resend may still wait for the group of this record.
    for (const number of this.effects.keys()) this.pending.delete(number)
    this.effects = effects
    this.wake()
  }

  /** Keeps the answer of a deferred command; call it when the command is durable. */
  defer(number: number, pending: Pending): void {
    this.pending.set(number, pending)
  }

  /**
   * The answer to a deferred command, or to its resend: its effect if that follows soon, else that it is pending.
   * @throws Refusal with which the effect was rejected, or `outcome_unknown` when nothing may be acknowledged by then
   */
  async answerTo(number: number, answers: Answers, known = this.pending.get(number)): Promise<object> {
    if (known === undefined) throw new Refusal('order_exists')
    if (answers === 'held' && !this.effects.has(number)) await this.nextDecision(LIMITS.deferred_answer_ms)
    const effect = this.effects.get(number)
    if (effect === undefined) {
      if (this.stopped || this.parts.barred() !== undefined) throw new Refusal('outcome_unknown')
      return { ...known.result, receipt: known.receipt }
    }
    if ('code' in effect) throw new Refusal(effect.code, effect.facts)
    return { ...('result' in effect ? effect.result : {}), receipt: known.receipt }
  }

  /** Closes no more batches; resolves when the closed one is decided, or after `ms`. */
  async drain(ms: number): Promise<void> {
    this.draining = true
    if (this.parts.state.closed !== undefined) await this.nextDecision(ms)
  }

  /** Matches nothing more either, and answers waiting requests. */
  stop(): void {
    this.draining = true
    this.stopped = true
    this.wake()
  }

  private wake(): void {
    for (const wake of this.waiting.splice(0)) wake()
  }

  private isStalled(slot: SlotNumber): boolean {
    const { state, chain, clock } = this.parts
    const late = this.isLate()
    this.slot_ms = clock.monotonicMs()
    const { slot_ms } = chain.view()
    return (
      late || (state.slot > 0 && (slot - state.slot) * slot_ms > stallMs(LIMITS.stall_jump_slots, slot_ms))
    )
  }

  private close(): void {
    const { state, sequencer, seedOf } = this.parts
    const due = dueInstruments(state).map((one) => ({
      ...one,
      seed: seedOf(one.symbol, one.batch, state.epoch),
    }))
    if (due.length === 0) return
    const capacity = settingsOf(state).settlement_parts_max
    sequencer
      .submit({ kind: 'closed', seq: sequencer.seq_executed + 1, capacity, due })
      .catch(() => undefined)
  }

  private async decide(close: Parameters<ChainPort['commit']>[0]): Promise<void> {
    const { state, chain, config, disown, fatal } = this.parts
    try {
      const decision = await chain.commit(close, config.commit_ms)
      if (decision?.outcome === 'rolled_back') disown(decision.epoch > state.epoch ? 'forked' : 'rolled_back')
      else if (decision !== undefined) await this.journal(close.seq, decision)
    } catch (error) {
      // A stopped sequencer has reported its error.
      if (!this.stopped) fatal(error as Error)
    }
  }

  /** Once the instance may match. */
  private async journal(seq: JournalSeq, { outcome, slot, epoch, commit_seq }: BatchDecision): Promise<void> {
    const { sequencer, barred } = this.parts
    while (barred() !== undefined && !this.stopped) await Bun.sleep(LIMITS.release_look_ms)
    if (this.stopped || outcome === 'rolled_back') return
    await sequencer.submit({ kind: 'decided', seq, outcome, slot, epoch, commit_seq })
  }

  private nextDecision(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.waiting.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}

/** Slots as time; very short slots, of a sandbox, do not make every pause of the process a stall. */
function stallMs(slots: number, slot_ms: number): number {
  return Math.max(LIMITS.stall_min_ms, slots * slot_ms)
}
