/** Answers public reads: instruments, settlement health and batches, the finalized note tree. */

import { toHex } from '../../protocol/bytes'
import { TREE_DEPTH } from '../../protocol/notes/merkle_tree'
import { Refusal } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { EngineConfig } from '../config'
import type { State } from '../machine/state/state'
import type { ChainPort, HashPort } from '../ports'
import type { LandedBatches } from './public_facts'

/** Instruments with their terms and durable status, as frozen copies. */
export class InstrumentReads {
  private readonly instruments: Map<string, Readonly<wire.Instrument>>
  private list: readonly wire.Instrument[]

  constructor(settings: EngineConfig, state: State) {
    this.instruments = new Map(
      settings.instruments.map((one) => {
        const status = state.instruments.get(one.symbol)?.status ?? 'active'
        return [one.symbol, Object.freeze({ ...one, status })]
      }),
    )
    this.list = Object.freeze([...this.instruments.values()])
  }

  /** Publishes a status once it is durable. */
  setStatus(symbol: string, status: wire.Instrument['status']): void {
    const instrument = this.instruments.get(symbol)
    if (instrument === undefined) return
    this.instruments.set(symbol, Object.freeze({ ...instrument, status }))
    this.list = Object.freeze([...this.instruments.values()])
  }

  /** Frozen, and identical objects until a status changes, so callers may cache results by identity. */
  all(): readonly wire.Instrument[] {
    return this.list
  }

  /** Throws `instrument_unknown`. */
  one(symbol: string): wire.Instrument {
    const instrument = this.instruments.get(symbol)
    if (instrument === undefined) throw new Refusal('instrument_unknown')
    return instrument
  }
}

/** Health of settlement, and the batches on chain. */
export class SettlementReads {
  constructor(
    private readonly chain: ChainPort,
    private readonly landed: LandedBatches,
  ) {}

  health(): wire.SettlementHealth {
    const last = this.landed.last()
    return {
      status: this.chain.health().settlement,
      last_batch: last?.batch ?? 0,
      last_signature: last?.signature ?? null,
      last_slot: last?.slot ?? null,
    }
  }

  /** Throws `batch_unknown` for a batch that is not on chain. */
  batch(batch: number): wire.SettlementBatchStage {
    const found = this.landed.batch(batch)
    if (found === undefined) throw new Refusal('batch_unknown')
    return found
  }
}

/** Finalized chain state that is durable in the journal. */
export type FinalizedView = {
  /** Leaves whose deposits are credited. */
  leaf_count: number
  /** Slot of the newest such leaf. */
  slot: number
  /** Newest finalized settlement batch, 0 for none. */
  batch_id: number
}

/** The finalized note tree of the hashing worker. */
export class TreeReads {
  constructor(
    private readonly hash: HashPort,
    private readonly finalized: () => FinalizedView,
    /** Leaf index by commitment, for leaves in the journal; the tree may have newer ones, found by index only. */
    private readonly placeOf: (commitment: Uint8Array) => number | undefined,
  ) {}

  root(): wire.TreeRoot {
    const { leaf_count, root } = this.hash.root()
    const { slot, batch_id } = this.finalized()
    return { root: toHex(root), leaf_count, depth: TREE_DEPTH, slot, batch_id }
  }

  /** Of a commitment or of the leaf at an index. Throws `leaf_unknown`. */
  async inclusion(leaf: Uint8Array | number): Promise<wire.TreeInclusion> {
    const leaf_index = typeof leaf === 'number' ? leaf : this.placeOf(leaf)
    if (leaf_index === undefined || leaf_index >= this.hash.root().leaf_count)
      throw new Refusal('leaf_unknown')
    const proof = await this.hash.inclusion(leaf_index)
    return {
      commitment: toHex(proof.leaf),
      leaf_index,
      siblings: proof.siblings.map(toHex),
      root: toHex(proof.root),
      leaf_count: proof.leaf_count,
      usable: leaf_index < this.finalized().leaf_count,
    }
  }

  async leaves(from: number, limit: number): Promise<wire.TreeLeaves> {
    const leaves = await this.hash.leaves(from, limit)
    // Same version as the leaves: the reply that carried them updated the root.
    const { root, leaf_count } = this.hash.root()
    return { from, leaves: leaves.map(toHex), root: toHex(root), leaf_count }
  }
}
