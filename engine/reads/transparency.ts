/** What everyone may check against the chain: balances, liabilities, roots, signer, pending admin actions. */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import type { Transparency } from '../../protocol/wire'
import type { EngineConfig } from '../config'
import type { ChainPort, ClockPort, VaultConfig, VaultMint } from '../ports'
import type { PublicFacts } from './public_facts'

/** How long one reading of the chain answers everybody. */
const FRESH_MS = 2_000

/** What the chain told, in the form it is answered in. */
type Reading = {
  mints: Omit<Transparency['mints'][number], 'stale'>[]
  tree: Transparency['tree']
  settlement: Omit<Transparency['settlement'], 'last_signature'>
  pending: VaultConfig['pending']
  at_ms: number
}

export class TransparencyReads {
  private reading: Reading
  private under_way: Promise<void> | undefined
  private failed = false

  constructor(
    private readonly parts: {
      settings: EngineConfig
      chain: ChainPort
      clock: ClockPort
      facts: PublicFacts
    },
    first: { config: VaultConfig; mints: VaultMint[] },
  ) {
    // Taken before the epoch was opened: old from the start.
    this.reading = readingOf(first.config, first.mints, parts.settings, Number.NEGATIVE_INFINITY)
  }

  /** Never fails for the chain's sake: an older reading is answered and marked `stale`. */
  async read(): Promise<Transparency> {
    if (this.parts.clock.monotonicMs() - this.reading.at_ms > FRESH_MS) {
      this.under_way ??= this.refresh().finally(() => {
        this.under_way = undefined
      })
      await this.under_way
    }
    const { facts, clock } = this.parts
    const { mints, tree, settlement, pending } = this.reading
    return {
      mints: mints.map((mint) => ({ ...mint, stale: this.failed })),
      tree,
      settlement: { ...settlement, last_signature: facts.landed.last()?.signature ?? null },
      admin: { pending },
      builds: facts.builds.all(),
      statistics: { days: facts.statistics.published(clock.unixMs()) },
    }
  }

  private async refresh(): Promise<void> {
    const { chain, clock, settings } = this.parts
    try {
      const [config, mints] = await Promise.all([chain.readConfig(), chain.readMints()])
      this.reading = readingOf(config, mints, settings, clock.monotonicMs())
      this.failed = false
    } catch {
      // The reading says itself that it is old; the chain's health is told by /system/status.
      this.failed = true
    }
  }
}

/** Made once for all who ask while it is fresh: addresses in base58 cost more than all the rest. */
function readingOf(
  config: VaultConfig,
  mints: readonly VaultMint[],
  settings: EngineConfig,
  at_ms: number,
): Reading {
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
    at_ms,
  }
}

/** None for a mint the venue is not configured for. */
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
