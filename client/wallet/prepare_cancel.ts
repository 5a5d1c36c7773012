/** Builds and signs cancel, cancel-all and dead-man requests; they share one nonce counter per key. */
import { fromHex, toHex } from '../../protocol/bytes'
import { encodeCancel } from '../../protocol/cancel'
import { encodeCancelAll } from '../../protocol/cancel_all'
import { encodeDeadMan } from '../../protocol/dead_man'
import { sign } from '../../protocol/sign'
import type { CancelAllRequest, CancelRequest, DeadManRequest } from '../../protocol/wire'
import type { Wallet } from './wallet'

function nextCancelNonce(wallet: Wallet, key_index: number): bigint {
  return BigInt(++wallet.counters(key_index).cancels)
}

export function prepareCancel(
  wallet: Wallet,
  venue: Uint8Array,
  order_id: string,
  key_index: number,
): CancelRequest {
  const cancel_nonce = nextCancelNonce(wallet, key_index)
  const trading_key = wallet.tradingKey(key_index)
  const body = encodeCancel({ venue, order_id: fromHex(order_id, 16)!, trading_key, cancel_nonce })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    cancel_nonce: String(cancel_nonce),
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
  }
}

export function prepareCancelAll(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  symbol?: string,
): CancelAllRequest {
  const cancel_nonce = nextCancelNonce(wallet, key_index)
  const trading_key = wallet.tradingKey(key_index)
  const body = encodeCancelAll({ venue, symbol: symbol ?? '', trading_key, cancel_nonce })
  const request: CancelAllRequest = {
    trading_key: wallet.tradingKeyText(key_index),
    cancel_nonce: String(cancel_nonce),
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
  }
  return symbol === undefined ? request : { ...request, symbol }
}

export function prepareDeadMan(
  wallet: Wallet,
  venue: Uint8Array,
  key_index: number,
  timeout_slots: number,
): DeadManRequest {
  const cancel_nonce = nextCancelNonce(wallet, key_index)
  const trading_key = wallet.tradingKey(key_index)
  const body = encodeDeadMan({ venue, trading_key, cancel_nonce, timeout_slots: BigInt(timeout_slots) })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    cancel_nonce: String(cancel_nonce),
    timeout_slots,
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
  }
}
