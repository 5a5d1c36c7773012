/** Builds and signs cancel, cancel-all and dead-man requests; they share one nonce counter per key. */
import { fromHex, toHex } from '../../protocol/bytes'
import { encodeCancel } from '../../protocol/cancel'
import { encodeCancelAll } from '../../protocol/cancel_all'
import { encodeDeadMan } from '../../protocol/dead_man'
import { sign } from '../../protocol/sign'
import type { CancelAllRequest, CancelRequest, DeadManRequest } from '../../protocol/wire'
import type { Wallet } from './wallet'

type Signed = { trading_key: string; cancel_nonce: string; signature: string }

/** Signs a body with the key's next cancel nonce. */
function signNext(
  wallet: Wallet,
  key_index: number,
  encode: (by: { trading_key: Uint8Array; cancel_nonce: bigint }) => Uint8Array,
): Signed {
  const cancel_nonce = BigInt(++wallet.counters(key_index).cancels)
  const body = encode({ trading_key: wallet.tradingKey(key_index), cancel_nonce })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    cancel_nonce: String(cancel_nonce),
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
  }
}

export function prepareCancel(
  wallet: Wallet,
  venue: Uint8Array,
  order_id: string,
  key_index: number,
): CancelRequest {
  const order = fromHex(order_id, 16)!
  return signNext(wallet, key_index, (by) => encodeCancel({ venue, order_id: order, ...by }))
}

export function prepareCancelAll(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  symbol?: string,
): CancelAllRequest {
  const signed = signNext(wallet, key_index, (by) => encodeCancelAll({ venue, symbol: symbol ?? '', ...by }))
  return symbol === undefined ? signed : { ...signed, symbol }
}

export function prepareDeadMan(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  timeout_slots: number,
): DeadManRequest {
  const timeout = BigInt(timeout_slots)
  const signed = signNext(wallet, key_index, (by) => encodeDeadMan({ venue, timeout_slots: timeout, ...by }))
  return { ...signed, timeout_slots }
}
