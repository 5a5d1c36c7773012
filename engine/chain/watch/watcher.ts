/** Polls the vault: config and fee payer at confirmed, leaves at finalized, exit requests at both. */
import { equalBytes } from '../../../protocol/bytes'
import type { ConfigAccount } from '../../../protocol/vault/accounts'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, OutboxPort } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { type ChainHealth, supervise } from '../client/health'
import { readVault } from '../client/read_vault'
import { ChainUnavailable } from '../client/rpc_pool'
import type { ExitWatch } from './watch_exits'
import type { LeafWatch } from './watch_leaves'

export class Watcher {
  private exits_slot = Number.NEGATIVE_INFINITY
  private slot_confirmed = 0
  private slot_finalized = 0

  constructor(
    readonly client: ChainClient,
    readonly config: ConfigWatch,
    readonly leaves: LeafWatch,
    readonly exits: ExitWatch,
    /** Called when the venue's note tree contradicts the chain. */
    readonly mismatch: () => void,
  ) {}

  /** Runs until the client closes or this instance must stop. */
  run(): Promise<void> {
    return supervise(this.client, async () => {
      if (!(await this.poll())) return false
      await this.client.rpc.sleep(this.client.view.slotMs())
      return true
    })
  }

  private async poll(): Promise<boolean> {
    const confirmed = await readVault(this.client, 'confirmed', this.slot_confirmed)
    this.slot_confirmed = this.client.view.reached(confirmed.slot)
    if (!this.config.check(confirmed.config)) return false
    const finalized = await readVault(this.client, 'finalized', this.slot_finalized)
    this.slot_finalized = this.client.view.reached(finalized.slot)
    if (!(await this.leaves.follow(finalized))) {
      this.mismatch()
      return false
    }
    if (this.slot_confirmed - this.exits_slot >= LIMITS.exits_look_slots) {
      this.exits_slot = this.slot_confirmed
      await this.exits.follow()
    }
    return true
  }
}

type ConfigWatchArgs = {
  sink: ChainSinkPort
  outbox: OutboxPort
  health: ChainHealth
  /** Newest batch that the engine knew at the start. */
  last_batch: number
  own_boot_nonces: readonly Uint8Array[]
}
type HaltReason = Parameters<ChainSinkPort['halted']>[0]

/** Compares the vault's config with the journal: detects another instance, a lost journal, a pause or a freeze. */
export class ConfigWatch {
  private reported = new Set<HaltReason>()
  /** Newest batch that the relayer has acted on. */
  private newest_own = 0

  constructor(readonly args: ConfigWatchArgs) {}

  /** False when this instance must stop. Reports each verdict once, a pause each time one begins. */
  check(config: ConfigAccount): boolean {
    const verdict = this.verdict(config)
    if (!config.paused) {
      this.reported.delete('vault_paused')
      this.args.health.set('vault_paused', false)
    }
    if (verdict && !this.reported.has(verdict)) {
      this.reported.add(verdict)
      this.args.health.set(verdict, true)
      this.args.sink.halted(verdict)
    }
    return verdict === undefined || verdict === 'vault_paused'
  }

  private verdict(config: ConfigAccount): HaltReason | undefined {
    const { outbox, last_batch, own_boot_nonces } = this.args
    const own = config.epoch === 0 || own_boot_nonces.some((nonce) => equalBytes(nonce, config.boot_nonce))
    if (!own) return 'forked'
    if (config.last_batch > last_batch && !this.isOwn(config.last_batch)) return 'rolled_back'
    const head = outbox.head()
    if (config.journal_seq > head.seq) return 'rolled_back'
    if (config.journal_seq === head.seq && !equalBytes(config.journal_head, head.head)) return 'forked'
    if (config.frozen) return 'vault_frozen'
    return config.paused ? 'vault_paused' : undefined
  }

  /** Marks a batch as this venue's before the relayer acts on it: its payload may be deleted before the next check. */
  ownBatch(batch_id: number): void {
    this.newest_own = Math.max(this.newest_own, batch_id)
  }

  private isOwn(batch_id: number): boolean {
    return batch_id <= this.newest_own || this.args.outbox.payload(batch_id) !== undefined
  }
}

/** Polls the settlement signer's balance until the client closes; sets or clears `fee_payer_low`. */
export async function watchPayer({ rpc, signer, health, fees }: ChainClient): Promise<void> {
  while (!rpc.closed) {
    try {
      const { value } = await rpc.read((endpoint, abortSignal) =>
        endpoint.getBalance(signer.address, { commitment: 'confirmed' }).send({ abortSignal }),
      )
      health.set('fee_payer_low', value < fees.balance_min_lamports)
    } catch (error) {
      if (!(error instanceof ChainUnavailable)) throw error
    }
    await rpc.sleep(LIMITS.payer_look_ms)
  }
}
