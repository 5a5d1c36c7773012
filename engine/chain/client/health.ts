/** Reports the health of the chain loops and retries their failed steps. */

import { isSolanaError } from '@solana/kit'
import type { ChainClient } from './chain_client'
import { VaultUnreadable } from './read_vault'
import { backoffMs, ChainUnavailable } from './rpc_pool'

/** Never renamed: operators alert on them. */
type HealthReason =
  | 'rpc_unreachable'
  | 'internal_error'
  | 'slot_stalled'
  | 'fee_payer_low'
  | 'batch_delayed'
  | 'program_error'
  | 'vault_frozen'
  | 'vault_paused'
  | 'forked'
  | 'rolled_back'
  | 'root_mismatch'

/** The current reasons why settlement is degraded; each part sets and clears its own. */
export class ChainHealth {
  private readonly present = new Set<HealthReason>()

  set(reason: HealthReason, present: boolean): void {
    if (present) this.present.add(reason)
    else this.present.delete(reason)
  }

  reasons(): HealthReason[] {
    return [...this.present].sort()
  }
}

/**
 * Repeats `step` until the client closes. A failed step is reported and retried with backoff.
 * @param step resolves with false to end the loop
 */
export async function supervise(
  { rpc, health }: Pick<ChainClient, 'rpc' | 'health'>,
  step: () => Promise<boolean>,
): Promise<void> {
  for (let failures = 0; !rpc.closed; ) {
    try {
      if (!(await step())) return
      failures = 0
      health.set('rpc_unreachable', false)
      health.set('internal_error', false)
    } catch (error) {
      if (rpc.closed) return
      const outside =
        error instanceof ChainUnavailable || error instanceof VaultUnreadable || isSolanaError(error)
      health.set(outside ? 'rpc_unreachable' : 'internal_error', true)
      await rpc.sleep(backoffMs(failures++))
    }
  }
}
