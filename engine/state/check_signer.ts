/** Who may sign for whom: trading keys stay with the account that used them first. */
import { encodeBase58 } from '../../protocol/base58'
import type { Account, TradingKey } from './account'
import { newList } from './handle_list'
import { type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

export type Signer = {
  ok: true
  account: Account
  /** base58 of the trading key. */
  text: string
  bytes: Uint8Array
  /** Undefined until the first accepted command binds it. */
  key: TradingKey | undefined
}

/** @throws Error for an account without a record: sessions exist only for accounts. */
export function accountOf(state: State, account_id: string): Account {
  const account = state.accounts.get(account_id)
  if (account === undefined) throw new Error('a command names an account without a record')
  return account
}

/** Refuses `key_bound`. */
export function checkSigner(state: State, account_id: string, bytes: Uint8Array): Signer | RefusedOutcome {
  const account = accountOf(state, account_id)
  const place = state.key_index.indexOf(bytes)
  const key = place === undefined ? undefined : state.key_list[place]
  if (key !== undefined && key.account !== account) return refuse('key_bound')
  return { ok: true, account, text: key?.text ?? encodeBase58(bytes), bytes, key }
}

/** Makes a key known; keys come in the order of their index. */
export function addKey(state: State, key: TradingKey): void {
  state.keys.set(key.text, key)
  state.key_index.append(key.bytes)
  state.key_list.push(key)
}

/** The key of a signer, bound now if this is its first accepted command. */
export function bindKey(state: State, signer: Signer): TradingKey {
  const known = signer.key ?? state.keys.get(signer.text)
  if (known !== undefined) return known
  const key: TradingKey = {
    index: state.keys.size,
    bytes: signer.bytes,
    text: signer.text,
    account: signer.account,
    place_nonce: 0n,
    cancel_nonce: 0n,
    dead_man_slot: 0,
    orders: newList(),
  }
  addKey(state, key)
  signer.account.keys.push(key)
  return key
}
