/** Turns observations of the chain watcher into journaled commands. */
import type { SlotNumber } from '../../protocol/units'
import type { HaltReason } from '../commands'
import { LIMITS } from '../limits'
import { noteOfRequest } from '../machine/rules/settled'
import type { Exit } from '../machine/state/batch'
import { indexOf, type Past } from '../machine/state/past'
import type { State } from '../machine/state/state'
import type { ChainSinkPort, ExitRequest, HashPort } from '../ports'
import type { Availability } from './availability'
import type { Closing } from './closing'
import type { Sequencer } from './sequencer'

export class ChainSink implements ChainSinkPort {
  constructor(
    private readonly state: State,
    private readonly past: Past,
    private readonly hash: HashPort,
    private readonly sequencer: Sequencer,
    private readonly closing: Closing,
    private readonly availability: Availability,
    /** Stops this instance: another one holds the epoch, or the journal is not the newest. */
    private readonly disown: (reason: 'forked' | 'rolled_back') => void,
  ) {}

  slot(slot: SlotNumber): void {
    // Nothing is matched without the right to acknowledge: a later slot follows.
    if (slot <= this.state.slot || this.availability.isStopped() || this.availability.barred()) return
    this.unlessStopped(this.closing.slot(slot))
  }

  /** Appends to the mirrored tree first, which rejects a leaf that differs from its own. */
  async leaves(first_index: number, leaves: Uint8Array[], slot: SlotNumber): Promise<void> {
    await this.hash.appendLeaves(first_index, leaves)
    const end = first_index + leaves.length
    while (this.state.leaves.size < end) {
      const from = this.state.leaves.size
      const fresh = leaves.slice(from - first_index, from - first_index + LIMITS.leaves_per_command_max)
      await this.sequencer.submit({ kind: 'leaves', first_index: from, leaves: fresh, slot })
    }
  }

  async exitRequested(request: ExitRequest): Promise<boolean> {
    this.sequencer.arrived()
    if (request.stage === 'confirmed' && noteOfRequest(this.state, request) === undefined) return false
    const { nullifier, commitment } = request
    const isOpen = this.state.settlement.exits.has(nullifier.toHex())
    if (!isOpen && this.past.indexOf('nullifiers', nullifier) !== undefined) return true
    const leaf_index = indexOf(this.state, this.past, 'leaves', commitment)
    await this.sequencer.submit({ kind: 'exit_requested', request: { ...request, leaf_index } })
    return true
  }

  async queueCapacity(capacity: number): Promise<void> {
    if (capacity === this.state.settlement.queue_capacity) return
    await this.sequencer.submit({ kind: 'queue_capacity', capacity })
  }

  halted(reason: HaltReason): void {
    if (reason === 'forked' || reason === 'rolled_back') {
      // The epoch that follows a hand-over is of the node that the term was given to.
      if (this.availability.handing === undefined) this.disown(reason)
      return
    }
    if (this.state.halted === reason || this.availability.isStopped()) return
    this.unlessStopped(this.sequencer.submit({ kind: 'halted', reason }))
  }

  resumed(reason: HaltReason): void {
    if (this.state.halted !== reason || this.availability.isStopped()) return
    this.unlessStopped(this.sequencer.submit({ kind: 'resumed' }))
  }

  /** Ignores the rejection of a stopped sequencer, which has already reported its error. */
  private unlessStopped(sequenced: Promise<unknown>): void {
    sequenced.catch(() => undefined)
  }
}

/** The exit requests that have not ended, in the watcher's form: it continues from them after a boot. */
export function exitsOf(state: State, isWanted: (exit: Exit) => boolean = () => true): ExitRequest[] {
  const { exits, waiting } = state.settlement
  return [...exits.values()].filter(isWanted).map((exit) => {
    const { nullifier, commitment, mint, amount, destination, deadline_unix_s } = exit
    const served = exit.settlement_batch > 0 || waiting.includes(exit)
    return {
      nullifier,
      commitment,
      mint,
      amount,
      destination,
      deadline_unix_s,
      request_account: exit.request_account,
      refund_inner: exit.refund_inner,
      stage: served ? 'finalized' : 'confirmed',
    }
  })
}
