/** Reads the public figures that anyone can check on chain: balances, liabilities, roots, signer, admin actions. */

import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import type { Transparency } from '../../protocol/wire/trading'
import type { EngineConfig } from '../config'
import { LIMITS } from '../limits'
import type { ChainPort, ClockPort, VaultConfig, VaultMint } from '../ports'
import type { PublicFacts } from './public_facts'

/** The last chain read, in the shape of the answer. */
type Reading = {
  mints: Omit<Transparency['mints'][number], 'stale'>[]
  tree: Transparency['tree']
  settlement: Omit<Transparency['settlement'], 'last_signature'>
  pending: VaultConfig['pending']
}

export class TransparencyReads {
  private reading: Reading
  /** Built once per reading; the same object lets the server encode it once. */
  private answer: Transparency | undefined
  private read_ms = Number.NEGATIVE_INFINITY
  private under_way: Promise<Transparency> | undefined

  /** @param first read before the epoch was opened, so the first read() refreshes it */
  constructor(
    private readonly parts: {
      settings: EngineConfig
      chain: ChainPort
      clock: ClockPort
      facts: PublicFacts
    },
    first: { config: VaultConfig; mints: VaultMint[] },
  ) {
    this.reading = readingOf(first.config, first.mints, parts.settings)
  }

  /** Frozen. If the chain cannot be read, answers the last reading marked `stale`. */
  read(): Transparency | Promise<Transparency> {
    if (
      this.answer !== undefined &&
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
    let stale = false
    try {
      const [config, mints] = await Promise.all([chain.readConfig(), chain.readMints()])
      this.reading = readingOf(config, mints, settings)
      this.read_ms = clock.monotonicMs()
    } catch {
      // The answer is marked stale; /system/status reports the chain's health.
      stale = true
    }
    this.answer = this.answerOf(this.reading, stale)
    return this.answer
  }

  private answerOf({ mints, tree, settlement, pending }: Reading, stale: boolean): Transparency {
    const { facts, clock } = this.parts
    return Object.freeze({
      mints: mints.map((mint) => ({ ...mint, stale })),
      tree,
      settlement: { ...settlement, last_signature: facts.landed.last()?.signature ?? null },
      admin: { pending },
      builds: facts.builds.all(),
      statistics: { days: facts.statistics.published(clock.unixMs()) },
    })
  }
}

function readingOf(config: VaultConfig, mints: readonly VaultMint[], settings: EngineConfig): Reading {
  return {
    mints: mints.flatMap((one) => mintOf(one, settings)),
    tree: {
      root: toHex(config.note_root),
      leaf_count: config.leaf_count,
      spent_root: toHex(config.spent_root),
      spent_count: config.spent_count,
    },
    settlement: {
      signer: encodeBase58(config.settlement_signer),
      epoch: config.epoch,
      generation: config.generation,
      last_batch: config.last_batch,
    },
    pending: config.pending,
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
