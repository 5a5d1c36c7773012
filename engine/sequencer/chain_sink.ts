/** Turns observations of the chain watcher into journaled commands. */
import type { SlotNumber } from '../../protocol/units'
import type { HaltReason } from '../commands'
import { LIMITS } from '../limits'
import type { State } from '../machine/state/state'
import type { ChainPort, ChainSinkPort, ExitRequest, HashPort } from '../ports'
import type { Availability } from './availability'
import type { Sequencer } from './sequencer'

export class ChainSink implements ChainSinkPort {
  /** The pause is finalized, so an unpaused config means that it ended. */
  private pause_finalized = false
  private looking = false

  constructor(
    private readonly state: State,
    private readonly hash: HashPort,
    private readonly chain: ChainPort,
    private readonly sequencer: Sequencer,
    private readonly availability: Availability,
    /** Stops this instance: another one holds the epoch, or the journal is not the newest. */
    private readonly disown: (reason: 'forked' | 'rolled_back') => void,
  ) {}

  slot(slot: SlotNumber): void {
    if (slot <= this.state.slot || this.availability.isStopped()) return
    this.unlessStopped(this.sequencer.submit({ kind: 'slot', slot }))
    if (this.state.halted === 'vault_paused' && !this.looking) void this.lookForUnpause()
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

  async exitRequested(request: ExitRequest): Promise<void> {
    await this.sequencer.submit({ kind: 'exit_requested', request })
  }

  halted(reason: HaltReason): void {
    if (reason === 'forked' || reason === 'rolled_back') {
      this.disown(reason)
      return
    }
    if (this.state.halted === reason || this.availability.isStopped()) return
    this.pause_finalized = false
    this.unlessStopped(this.sequencer.submit({ kind: 'halted', reason }))
  }

  /** A pause is reported at confirmed, the config is read at finalized: first it must show the pause, then its end. */
  private async lookForUnpause(): Promise<void> {
    this.looking = true
    try {
      const { paused } = await this.chain.readConfig()
      if (!paused && this.pause_finalized) await this.sequencer.submit({ kind: 'resumed' })
      this.pause_finalized = paused
    } catch {
      // The chain port reports its own health; the next slot retries.
    }
    this.looking = false
  }

  /** Ignores the rejection of a stopped sequencer, which has already reported its error. */
  private unlessStopped(sequenced: Promise<unknown>): void {
    sequenced.catch(() => undefined)
  }
}

/** The exit requests that have not ended, in the watcher's form: it continues from them after a boot. */
export function exitsOpen(state: State): ExitRequest[] {
  const { exits, waiting } = state.settlement
  return [...exits.values()].map((exit) => {
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
