/** Compares the vault's config with what this venue journaled: another instance, a lost journal, a pause or a freeze. */
import { equalBytes } from '../../protocol/bytes'
import type { ConfigAccount } from '../../protocol/vault/accounts'
import type { ChainSinkPort, OutboxPort } from '../ports'
import type { ChainHealth } from './health'

export type ConfigWatchArgs = {
  sink: ChainSinkPort
  outbox: OutboxPort
  health: ChainHealth
  epoch: number
  /** Newest batch the engine knew at start. */
  last_batch: number
  own_boot_nonces: readonly Uint8Array[]
}
type HaltReason = Parameters<ChainSinkPort['halted']>[0]

export class ConfigWatch {
  #reported = new Set<HaltReason>()
  #newest_own = 0

  constructor(readonly args: ConfigWatchArgs) {}

  /** False when this instance may not go on. A pause is told each time one begins. */
  check(config: ConfigAccount): boolean {
    const verdict = this.#verdict(config)
    if (!config.paused) {
      this.#reported.delete('vault_paused')
      this.args.health.set('vault_paused', false)
    }
    if (verdict && !this.#reported.has(verdict)) {
      this.#reported.add(verdict)
      this.args.health.set(verdict, true)
      this.args.sink.halted(verdict)
    }
    return verdict === undefined || verdict === 'vault_paused'
  }

  #verdict(config: ConfigAccount): 'forked' | 'rolled_back' | 'vault_frozen' | 'vault_paused' | undefined {
    const { outbox, last_batch, own_boot_nonces } = this.args
    const own = config.epoch === 0 || own_boot_nonces.some((nonce) => equalBytes(nonce, config.boot_nonce))
    if (!own) return 'forked'
    if (config.last_batch > last_batch && !this.#isOwn(config.last_batch)) return 'rolled_back'
    const head = outbox.head()
    if (config.journal_seq > head.seq) return 'rolled_back'
    if (config.journal_seq === head.seq && !equalBytes(config.journal_head, head.head)) return 'forked'
    if (config.frozen) return 'vault_frozen'
    return config.paused ? 'vault_paused' : undefined
  }

  /** The relayer is about to act on a batch: it is this venue's, also after its payload is gone. */
  ownBatch(batch_id: number): void {
    this.#newest_own = Math.max(this.#newest_own, batch_id)
  }

  #isOwn(batch_id: number): boolean {
    return batch_id <= this.#newest_own || this.args.outbox.payload(batch_id) !== undefined
  }
}
