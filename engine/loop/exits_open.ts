/** The exit requests the engine has not seen the end of, as the watcher told them; it goes on from these after a boot. */
import type { ExitRequest } from '../ports'
import { hexBytes, type State } from '../state/state'

export function exitsOpen(state: State): ExitRequest[] {
  const { exits, waiting } = state.settlement
  return [...exits.values()].map((exit) => {
    const { nullifier, commitment, mint, amount, destination, deadline_unix_s } = exit
    const served = exit.settlement_batch > 0 || waiting.includes(exit)
    return {
      nullifier: hexBytes(nullifier, 32),
      commitment: hexBytes(commitment, 32),
      mint,
      amount,
      destination,
      deadline_unix_s,
      request_account: exit.request_account,
      refund_inner: exit.refund_inner,
      stage: served ? 'finalized' : 'confirmed',
    }
  })
}
