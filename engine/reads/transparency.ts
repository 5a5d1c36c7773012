/** Reads the public figures that anyone can check on chain: balances, roots, payouts, exits, signer, admin actions. */

import { encodeBase58 } from '../../protocol/base58'
import { concatBytes, toHex } from '../../protocol/bytes'
import { PAGE_ITEMS_MAX, TREE_DEPTH } from '../../protocol/limits'
import { holdingAt } from '../../protocol/vault/admin'
import type { Transparency } from '../../protocol/wire/trading'
import type { EngineConfig } from '../config'
import { LIMITS, MS_PER_DAY } from '../limits'
import type { Exit } from '../machine/state/batch'
import type { ChainPort, ClockPort, VaultConfig, VaultMint } from '../ports'
import type { PublicFacts } from './public_facts'

/** The last chain read, in the shape of the answer. */
type Reading = Pick<Transparency, 'payout_queue'> & {
  slot: number
  mints: Omit<Transparency['mints'][number], 'stale'>[]
  tree: Omit<Transparency['tree'], 'remaining_days'>
  settlement: Omit<Transparency['settlement'], 'last_signature' | 'finality'>
  pending: VaultConfig['pending']
  announced: VaultConfig['announced']
  outages: Transparency['outages']
}

/** Leaves of both trees at a time. */
type Mark = { at_ms: number; leaf_count: number; batch_count: number }

export class TransparencyReads {
  private reading: Reading
  /** Built once per reading; the same object lets the server encode it once. */
  private answer: Transparency | undefined
  private read_ms: number
  private is_read = false
  private under_way: Promise<Transparency> | undefined
  /** Of the last day, an hour apart and more, oldest first. */
  private marks: Mark[] = []

  /** @param first read before the epoch was opened, at the latest now, so the first read() refreshes it */
  constructor(
    private readonly parts: {
      settings: EngineConfig
      /** Its id, 32 bytes. */
      venue: Uint8Array
      chain: ChainPort
      clock: ClockPort
      facts: PublicFacts
      exits: () => Iterable<Exit>
    },
    first: { config: VaultConfig; mints: VaultMint[] },
  ) {
    this.reading = readingOf(first.config, first.mints, parts.settings)
    this.read_ms = parts.clock.monotonicMs()
  }

  /** Frozen. If the chain cannot be read, answers the last reading marked `stale`, with its slot and age. */
  read(): Transparency | Promise<Transparency> {
    if (
      this.answer !== undefined &&
      this.is_read &&
      this.parts.clock.monotonicMs() - this.read_ms <= LIMITS.chain_reading_fresh_ms
    ) {
      return this.answer
    }
    this.under_way ??= this.refresh().finally(() => {
      this.under_way = undefined
    })
    return this.under_way
  }

  private async refresh(): Promise<Transparency> {
    const { chain, clock, settings } = this.parts
    const asked_ms = clock.monotonicMs()
    let failed = false
    try {
      const [config, mints] = await Promise.all([chain.readConfig(), chain.readMints()])
      const read = readingOf(config, mints, settings)
      // Of a quorum whose newest members are behind those of the last reading.
      if (!this.is_read || read.slot >= this.reading.slot) this.reading = read
      this.read_ms = asked_ms
      this.is_read = true
      this.mark()
    } catch {
      // The answer is marked stale; /system/status reports the chain's health.
      failed = true
    }
    const { slot } = this.reading
    const stale = failed || chain.view().slot - slot > LIMITS.chain_ahead_slots_max
    const age_ms = Math.max(0, Math.round(clock.monotonicMs() - this.read_ms))
    this.answer = this.answerOf(this.reading, { slot, age_ms, stale })
    return this.answer
  }

  private mark(): void {
    const { leaf_count, spent_log_count: batch_count } = this.reading.tree
    const last = this.marks.at(-1)
    if (last === undefined || this.read_ms - last.at_ms >= LIMITS.growth_mark_ms)
      this.marks.push({ at_ms: this.read_ms, leaf_count, batch_count })
    while (this.marks.length > 1 && this.read_ms - this.marks[1]!.at_ms >= MS_PER_DAY) this.marks.shift()
  }

  private remainingDays(count: number, counted: 'leaf_count' | 'batch_count'): number | null {
    const [first] = this.marks
    if (first === undefined || count <= first[counted]) return null
    const days = (this.read_ms - first.at_ms) / MS_PER_DAY
    return Math.floor(((2 ** TREE_DEPTH - count) * days) / (count - first[counted]))
  }

  private answerOf(
    { mints, tree, payout_queue, settlement, pending, announced, outages }: Reading,
    reading: Transparency['reading'],
  ): Transparency {
    const { chain, facts, clock, exits, settings, venue } = this.parts
    const symbols = settings.instruments.map(({ symbol }) => symbol)
    return Object.freeze({
      reading,
      mints: mints.map((mint) => ({ ...mint, stale: reading.stale })),
      tree: { ...tree, remaining_days: this.remainingDays(tree.leaf_count, 'leaf_count') },
      spent_log_remaining_days: this.remainingDays(tree.spent_log_count, 'batch_count'),
      payout_queue,
      exits: [...exits()]
        .filter(({ settlement_batch }) => settlement_batch === 0)
        .sort((a, b) => a.deadline_unix_s - b.deadline_unix_s)
        .slice(0, PAGE_ITEMS_MAX)
        .map(({ nullifier, deadline_unix_s }) => ({
          nullifier: toHex(nullifier),
          deadline: deadline_unix_s,
        })),
      settlement: {
        ...settlement,
        last_signature: facts.landed.last()?.signature ?? null,
        finality: facts.course.finality(),
      },
      ...announcementsOf(pending, announced, Math.floor(chain.view().unix_ms / 1000)),
      outages,
      auditor_key: settings.auditor_key || null,
      builds: facts.builds.all(),
      epochs: facts.course.epochs(),
      batches: facts.batches(),
      statistics: { days: facts.statistics.days(venue, symbols, clock.unixMs()) },
    })
  }
}

/** @param now_s of the chain's clock */
function announcementsOf(
  pending: VaultConfig['pending'],
  announced: VaultConfig['announced'],
  now_s: number,
): Pick<Transparency, 'admin' | 'announced'> {
  const later = announced.flatMap(({ list, id, next }) =>
    next === undefined || next.from_s <= now_s
      ? []
      : [{ action: list, effective_unix_s: next.from_s, value: toHex(concatBytes(id, next.value)) }],
  )
  const holding = announced.flatMap((one) => {
    const value = holdingAt(one, now_s)
    return value === undefined ? [] : [{ list: one.list, id: toHex(one.id), value: toHex(value) }]
  })
  return { admin: { pending: [...pending, ...later] }, announced: holding }
}

function readingOf(config: VaultConfig, mints: readonly VaultMint[], settings: EngineConfig): Reading {
  return {
    slot: Math.min(config.slot, ...mints.map(({ slot }) => slot)),
    mints: mints.flatMap((one) => mintOf(one, settings)),
    tree: {
      root: toHex(config.note_root),
      leaf_count: config.leaf_count,
      spent_root: toHex(config.spent_root),
      spent_count: config.spent_count,
      spent_log_root: toHex(config.spent_root),
      spent_log_count: config.last_batch,
    },
    payout_queue: {
      length: config.queue.entries.length,
      oldest_slot: config.queue.entries[0]?.queued_slot ?? null,
    },
    settlement: {
      signer: encodeBase58(config.settlement_signer),
      epoch: config.epoch,
      generation: config.generation,
      last_batch: config.last_batch,
    },
    pending: config.pending,
    announced: config.announced,
    outages: config.outage === undefined ? [] : [config.outage],
  }
}

/** Empty for a mint that the venue does not configure. */
function mintOf(one: VaultMint, { mints }: EngineConfig): Reading['mints'] {
  const mint = encodeBase58(one.mint)
  const settings = mints.find((configured) => configured.mint === mint)
  if (settings === undefined) return []
  return [
    {
      mint,
      decimals: one.decimals,
      vault: encodeBase58(one.vault),
      vault_balance: one.balance.toString(),
      outstanding: one.liabilities.toString(),
      freezable: one.freezable,
      min_deposit: one.min_deposit.toString(),
      min_withdraw: settings.min_withdraw,
      min_exit: one.min_exit.toString(),
      withdraw_fee: settings.withdraw_fee,
      slot: one.slot,
    },
  ]
}
