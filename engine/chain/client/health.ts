/** Health of the chain loops: the reasons settlement is degraded, and the supervisor that retries a failed step. */

import { isSolanaError } from '@solana/kit'
import type { ChainClient } from './chain_client'
import { VaultUnreadable } from './read_vault'
import { backoffMs, ChainUnavailable } from './rpc_pool'

// Why settlement is not in order right now: a set of reasons that each part sets and clears.

/** Added to, never renamed: operators alert on them. */
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

export class ChainHealth {
  readonly #reasons = new Set<HealthReason>()

  set(reason: HealthReason, present: boolean): void {
    if (present) this.#reasons.add(reason)
    else this.#reasons.delete(reason)
  }

  reasons(): HealthReason[] {
    return [...this.#reasons].sort()
  }
}

// Repeats a step of a chain loop for ever: a failed one is reported and tried again, it never ends the process.

/** @param step resolves with false to end the loop */
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
