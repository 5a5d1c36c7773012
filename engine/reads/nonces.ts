/** Last nonces of an own trading key. */
import { Refusal } from '../../protocol/refusals'
import type { Nonces } from '../../protocol/wire'
import { keyOf } from '../intake/form'
import type { State } from '../state/state'

/**
 * "0" for a key that never signed an accepted command. Refuses `key_bound` for a key of another account, and
 * `field_invalid` for what is no key.
 */
export function noncesOf(state: State, account_id: string, trading_key: string): Nonces {
  const key = state.keys.get(trading_key)
  if (key === undefined) {
    keyOf(trading_key, 'trading_key')
    return { place_nonce: '0', cancel_nonce: '0' }
  }
  if (key.account.account_id !== account_id) throw new Refusal('key_bound')
  return { place_nonce: key.place_nonce.toString(), cancel_nonce: key.cancel_nonce.toString() }
}
