/** Decides a dead-man command: the timer that cancels a key's orders unless it is renewed. */
import type { CommandOf } from '../commands'
import { checkKeyLimit } from './check_capacity'
import { checkNonce } from './check_nonce'
import { checkSigner, type Signer } from './check_signer'
import type { RefusedOutcome } from './outcome'
import type { State } from './state'

export type DeadManPlan = { ok: true; signer: Signer }

export function decideDeadMan(state: State, command: CommandOf<'dead_man'>): DeadManPlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  const refused = checkNonce(signer.key, 'cancel_nonce', command.cancel_nonce) ?? checkKeyLimit(signer)
  return refused ?? { ok: true, signer }
}
