/** Well-formed request bodies and answers, so that each test changes only its subject. */
import type * as wire from '../../protocol/wire/trading'

export const KEY = '4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi'
export const HASH = '0a'.repeat(32)
export const ORDER_ID = '1b'.repeat(16)
export const SIGNATURE = '2c'.repeat(64)

export const CHECK: wire.CheckRequest = {
  order_id: ORDER_ID,
  trading_key: KEY,
  symbol: 'SOL-USDC',
  side: 'buy',
  type: 'limit',
  amount: '1000000000',
  price_limit: '150000000',
  expiry_slot: 1000,
  nonce: '1',
  collateral_commitment: HASH,
  continuation_anchors: [HASH],
}
export const PLACE: wire.PlaceRequest = { ...CHECK, signature: SIGNATURE }
export const CANCEL: wire.CancelRequest = { trading_key: KEY, cancel_nonce: '1', signature: SIGNATURE }
export const MODIFY: wire.ModifyRequest = {
  cancel_nonce: '1',
  cancel_signature: SIGNATURE,
  replacement: PLACE,
}
export const DEAD_MAN: wire.DeadManRequest = { ...CANCEL, timeout_slots: 100 }
export const WITHDRAWAL: wire.WithdrawalRequest = {
  trading_key: KEY,
  commitment: HASH,
  destination: KEY,
  amount: '5',
  nonce: '2',
  expiry_slot: 1000,
  change_anchor: HASH,
  signature: SIGNATURE,
}
export const RESHAPE: wire.ReshapeRequest = {
  trading_key: KEY,
  inputs: [HASH],
  amounts: ['1', '2'],
  anchor: HASH,
  nonce: '3',
  expiry_slot: 1000,
  signature: SIGNATURE,
  openings: [null],
}
export const CREDENTIAL: wire.CredentialRequest = {
  account_key: KEY,
  credential_id: ORDER_ID,
  version: 2,
  kind: 'read',
  secret_hash: HASH,
  passphrase_digest: HASH,
  salt: ORDER_ID,
  expiry_s: 0,
  signature: SIGNATURE,
}
export const RECEIPT: wire.Receipt = {
  epoch: 1,
  seq: 7,
  head: HASH,
  root: HASH,
  index: 0,
  path: [],
  signature: SIGNATURE,
}
export const PLACED: wire.PlaceResult = {
  order_id: ORDER_ID,
  status: 'accepted',
  arrival_slot: 9,
  seq: 1,
  receipt: RECEIPT,
}
export const CANCELLED: wire.CancelResult = {
  order_id: ORDER_ID,
  status: 'cancelled',
  seq: 2,
  receipt: RECEIPT,
}
export const FILL: wire.Fill = {
  seq: 3,
  order_id: ORDER_ID,
  fill_index: 0,
  symbol: 'SOL-USDC',
  side: 'buy',
  price: '150000000',
  amount: '1000000000',
  quote_amount: '150000000',
  fee: '75000',
  batch: 4,
  stage: 'matched',
  anchor_index: 0,
  proceeds_commitment: HASH,
  slot: 11,
}
export const ORDER: wire.Order = {
  order_id: ORDER_ID,
  trading_key: KEY,
  symbol: 'SOL-USDC',
  side: 'buy',
  type: 'limit',
  amount: '1000000000',
  filled_amount: '0',
  remaining_amount: '1000000000',
  price_limit: '150000000',
  min_fill: '0',
  expiry_slot: 1000,
  arrival_slot: 9,
  status: 'accepted',
  fills: [],
  seq: 1,
}
export const event = (seq: number, kind: wire.EventKind = 'order.accepted'): wire.AccountEvent => ({
  seq,
  kind,
  slot: 10,
  unix_ms: 1,
  data: kind.startsWith('fill.') ? { ...FILL, seq } : { ...ORDER, seq },
})
