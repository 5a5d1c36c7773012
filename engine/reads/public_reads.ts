/** Answers public reads: instruments, settlement health and batches, the finalized note tree. */

import { encodeBase58 } from '../../protocol/base58'
import { statisticsRowBody } from '../../protocol/bodies/statements'
import { toHex } from '../../protocol/bytes'
import { signingKey } from '../../protocol/ed25519'
import { TREE_DEPTH } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { EngineConfig } from '../config'
import type { State } from '../machine/state/state'
import type { ChainPort, ClockPort, HashPort } from '../ports'
import type { LandedBatches } from './public_facts'
import type { Statistics } from './statistics'

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

type MarketParts = {
  instruments: InstrumentReads
  statistics: Statistics
  /** Its id, 32 bytes. */
  venue: Uint8Array
  clock: Pick<ClockPort, 'unixMs'>
  /** The statement key of this boot, with its certificate for this epoch. */
  signer: () => { epoch: number; seed: Uint8Array; statement_key: Uint8Array; certificate: Uint8Array }
}

/** Market data that is published late: references and statistics. */
export class MarketReads {
  private readonly views = new Map<string, wire.InstrumentView>()

  constructor(private readonly parts: MarketParts) {}

  /** Frozen, and the same until something changes. Throws `instrument_unknown`. */
  instrument(symbol: string): wire.InstrumentView {
    const { instruments, statistics, venue, clock } = this.parts
    const instrument = instruments.one(symbol)
    const published = statistics.reference(venue, symbol, clock.unixMs())
    const known = this.views.get(symbol)
    if (known?.status === instrument.status && known.reference?.until_unix_s === published?.until_unix_s)
      return known
    const reference = published && {
      price: String(BigInt(published.ticks) * BigInt(instrument.tick_size)),
      until_unix_s: published.until_unix_s,
    }
    const view = Object.freeze({ ...instrument, reference: reference ?? null })
    this.views.set(symbol, view)
    return view
  }

  /** A page of published rows; the newest of them is signed, and with it all before. Throws `instrument_unknown`. */
  statistics(
    symbol: string,
    { after, limit, period }: { after: number; limit: number; period: wire.StatisticsPeriod },
  ): wire.Statistics {
    const { instruments, statistics, venue, clock, signer } = this.parts
    const about = { symbol: instruments.one(symbol).symbol, period }
    const terms = { after_unix_s: after, limit, now_unix_ms: clock.unixMs() }
    const { items, next_after } = statistics.page({ venue, ...about }, terms)
    const newest = items.at(-1)
    if (newest === undefined) return { ...about, items, next_after, signed: null }
    const { epoch, seed, statement_key, certificate } = signer()
    const signature = signingKey(seed).sign(statisticsRowBody(venue, symbol, period, newest))
    return {
      ...about,
      items,
      next_after,
      signed: {
        epoch,
        statement_key: encodeBase58(statement_key),
        certificate: toHex(certificate),
        signature: toHex(signature),
      },
    }
  }
}

/** Health of settlement, and the batches on chain. */
export class SettlementReads {
  private shown: { last: wire.SettlementBatchStage | undefined; health: wire.SettlementHealth } | undefined

  constructor(
    private readonly chain: ChainPort,
    private readonly landed: LandedBatches,
  ) {}

  /** Frozen, and the same until something changes. */
  health(): wire.SettlementHealth {
    const last = this.landed.last()
    const status = this.chain.health().settlement
    if (this.shown === undefined || this.shown.last !== last || this.shown.health.status !== status) {
      const health = Object.freeze({
        status,
        last_batch: last?.batch ?? 0,
        last_signature: last?.signature ?? null,
        last_slot: last?.slot ?? null,
      })
      this.shown = { last, health }
    }
    return this.shown.health
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
  /** The answer of the last call, and the bytes of its root: the hashing thread's newest, replaced when it changes. */
  private shown: { root: wire.TreeRoot; bytes: Uint8Array } | undefined

  constructor(
    private readonly hash: HashPort,
    private readonly finalized: () => FinalizedView,
    /** Leaf index by commitment, for leaves in the journal; the tree may have newer ones, found by index only. */
    private readonly placeOf: (commitment: Uint8Array) => number | undefined,
  ) {}

  root(): wire.TreeRoot {
    const { leaf_count, root } = this.hash.root()
    const { slot, batch_id } = this.finalized()
    const known = this.shown?.bytes === root ? this.shown.root : undefined
    if (known?.leaf_count === leaf_count && known.slot === slot && known.batch_id === batch_id) return known
    const shown = Object.freeze({ root: toHex(root), leaf_count, depth: TREE_DEPTH, slot, batch_id })
    this.shown = { root: shown, bytes: root }
    return shown
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
