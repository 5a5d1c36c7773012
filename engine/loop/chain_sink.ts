/** What the chain watcher tells, turned into journaled commands. */
import { equalBytes } from '../../protocol/bytes'
import type { HaltReason } from '../commands'
import { LIMITS } from '../limits'
import type { ChainPort, ChainSinkPort, ExitRequest, HashPort } from '../ports'
import type { State } from '../state/state'
import type { Availability } from './availability'
import type { Sequencer } from './sequencer'

export class ChainSink implements ChainSinkPort {
  constructor(
    private readonly state: State,
    private readonly hash: HashPort,
    private readonly chain: ChainPort,
    private readonly sequencer: Sequencer,
    private readonly availability: Availability,
    /** This instance must not go on: another holds the epoch or the journal is not the newest. */
    private readonly disown: (reason: 'forked' | 'rolled_back') => void,
  ) {}

  slot(slot: number): void {
    if (slot <= this.state.slot || this.availability.isStopped()) return
    this.ignoreStop(this.sequencer.submit({ kind: 'slot', slot }))
  }

  /** Leaves enter the mirrored tree first: deposits count only under a root this venue reproduces. */
  async leaves(first_index: number, leaves: Uint8Array[], slot: number): Promise<void> {
    const mirrored = this.hash.leaves(first_index, leaves.length)
    if (mirrored.some((leaf, at) => !equalBytes(leaf, leaves[at]!))) return this.halted('root_mismatch')
    const { leaf_count, root } = await this.hash.appendLeaves(first_index, leaves)
    const config = await this.chain.readConfig()
    if (config.leaf_count === leaf_count && !equalBytes(config.note_root, root)) {
      return this.halted('root_mismatch')
    }
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
    this.ignoreStop(this.sequencer.submit({ kind: 'halted', reason }))
  }

  /** A stopped sequencer has said so already. */
  private ignoreStop(sequenced: Promise<unknown>): void {
    sequenced.catch(() => undefined)
  }
}
