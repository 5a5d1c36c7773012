/** Repeats a step of a chain loop for ever: a failed one is reported and tried again, it never ends the process. */
import { isSolanaError } from '@solana/kit'
import type { ChainClient } from './chain_client'
import { VaultUnreadable } from './read_vault'
import { backoffMs, ChainUnavailable } from './rpc_pool'

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
