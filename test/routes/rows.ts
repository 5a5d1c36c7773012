/** One row per endpoint: a request that fits its contract, the call it leads to, and what that call gives. */
import type { Enclave } from '../../enclave/contract'
import type { Venue } from '../../engine/venue'
import type * as wire from '../../protocol/wire'
import * as bodies from './bodies'

export type Row = {
  /** As in the manifest. */
  endpoint: string
  path: string
  json?: unknown
  status: number
  /** The venue's method behind it and its result; rows without one answer from elsewhere. */
  venue?: keyof Venue
  enclave?: keyof Enclave
  gives?: unknown
  /** The answer where it is not what the method gives. */
  answers?: unknown
  /** Anonymous callers are served. */
  open?: true
}

const { HASH, KEY, ORDER, ORDER_ID, FILL, RECEIPT, SIGNATURE } = bodies
const TX = '5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW'

const WITHDRAWAL: wire.Withdrawal = {
  withdrawal_id: ORDER_ID,
  commitment: HASH,
  destination: KEY,
  amount: '5',
  fee: '1',
  status: 'finalized',
  settlement_batch: 3,
  signature: TX,
  seq: 4,
}
const RESHAPED: wire.Reshape = {
  reshape_id: ORDER_ID,
  inputs: [HASH],
  outputs: [{ commitment: HASH, amount: '1' }],
  status: 'accepted',
  seq: 5,
}
const INSTRUMENT: wire.Instrument = {
  symbol: 'SOL-USDC',
  base_mint: KEY,
  quote_mint: KEY,
  base_decimals: 9,
  quote_decimals: 6,
  lot_size: '1000000',
  tick_size: '1000',
  min_amount: '1000000',
  max_amount: '1000000000000',
  batch_slots: 2,
  collar_bps: 500,
  fee_bps: 5,
  initial_reference: '150000000',
  reference_policy: 'last',
  price_rule: 'std4',
  volume_tolerance_bps: 0,
  status: 'active',
}
const STATUS: wire.SystemStatus = {
  ready: false,
  matching: 'paused',
  settlement: 'degraded',
  chain: { slot: 1, lag_ms: 2, genesis_hash: KEY },
  enclave: 'development',
  draining: false,
  reasons: ['chain_lag'],
}
const INCLUSION: wire.TreeInclusion = {
  commitment: HASH,
  leaf_index: 0,
  siblings: Array.from({ length: 32 }, () => HASH),
  root: HASH,
  leaf_count: 1,
  usable: true,
}
const TRANSPARENCY: wire.Transparency = {
  mints: [
    {
      mint: KEY,
      decimals: 6,
      vault: KEY,
      vault_balance: '1',
      outstanding: '1',
      freezable: true,
      min_deposit: '1',
      min_withdraw: '1',
      min_exit: '1',
      withdraw_fee: '1',
      slot: 1,
      stale: false,
    },
  ],
  tree: { root: HASH, leaf_count: 1, spent_root: HASH, spent_count: 0 },
  settlement: { signer: KEY, epoch: 1, generation: 0, last_batch: 1, last_signature: null },
  admin: { pending: [{ action: 'pause', effective_unix_s: 1, value: '' }] },
  builds: [{ compose_hash: HASH, tacit_version: '1.2.3', from_slot: 1 }],
  statistics: { days: [{ day: '2026-01-01', symbol: 'SOL-USDC', fills: null, volume: '1' }] },
}
const ATTESTATION: wire.Attestation = {
  quote: 'ab',
  event_log: '[]',
  report_data: '00'.repeat(64),
  vm_config: '{}',
  tee_pubkey: KEY,
  binding: {
    body: 'cd',
    signature: SIGNATURE,
    certificate: 'ef',
    certificate_signature: SIGNATURE,
    statement_key: KEY,
  },
}
const TIME = { slot: 1, unix_ms: 2, slot_ms: 401.5 }
const TOKENS = { access_token: 't', token_type: 'Bearer', expires_in: 900, account_id: 'acct-1' }
const CREDENTIALS = { api_key: 'k', api_secret: 's', passphrase: 'p' }
const PAGE = { items: [], next_after: null }
const MASS = { cancelled: [ORDER_ID], seq: 1, receipt: RECEIPT }

export const ROWS: Row[] = [
  {
    endpoint: 'post /auth/token',
    path: '/auth/token',
    json: CREDENTIALS,
    status: 200,
    venue: 'login',
    gives: TOKENS,
    open: true,
  },
  {
    endpoint: 'post /auth/token/revoke',
    path: '/auth/token/revoke',
    status: 200,
    venue: 'revoke',
    answers: { revoked: true },
  },
  {
    endpoint: 'get /health',
    path: '/health',
    status: 200,
    open: true,
    answers: { status: 'ok', uptime_ms: 0 },
  },
  {
    endpoint: 'get /system/status',
    path: '/system/status',
    status: 200,
    venue: 'status',
    gives: STATUS,
    open: true,
  },
  { endpoint: 'get /time', path: '/time', status: 200, venue: 'time', gives: TIME, open: true },
  {
    endpoint: 'get /attestation',
    path: '/attestation',
    status: 200,
    enclave: 'attestation',
    gives: ATTESTATION,
    open: true,
  },
  {
    endpoint: 'get /instruments',
    path: '/instruments',
    status: 200,
    venue: 'instruments',
    gives: [INSTRUMENT],
    open: true,
  },
  {
    endpoint: 'get /instruments/{symbol}',
    path: '/instruments/SOL-USDC',
    status: 200,
    venue: 'instrument',
    gives: INSTRUMENT,
    open: true,
  },
  {
    endpoint: 'get /tree/root',
    path: '/tree/root',
    status: 200,
    venue: 'treeRoot',
    gives: { root: HASH, leaf_count: 1, depth: 32, slot: 1, batch_id: 1 },
    open: true,
  },
  {
    endpoint: 'get /tree/inclusion',
    path: `/tree/inclusion?commitment=${HASH}`,
    status: 200,
    venue: 'treeInclusion',
    gives: INCLUSION,
  },
  {
    endpoint: 'get /tree/leaves',
    path: '/tree/leaves?from=0&limit=10000',
    status: 200,
    venue: 'treeLeaves',
    gives: { from: 0, leaves: [HASH], root: HASH, leaf_count: 1 },
  },
  {
    endpoint: 'get /transparency',
    path: '/transparency',
    status: 200,
    venue: 'transparency',
    gives: TRANSPARENCY,
    open: true,
  },
  {
    endpoint: 'get /settlement/status',
    path: '/settlement/status?batch=3',
    status: 200,
    venue: 'settlementBatch',
    gives: { batch: 3, signature: TX, slot: 1, stage: 'finalized' },
  },
  {
    endpoint: 'post /orders',
    path: '/orders',
    json: bodies.PLACE,
    status: 202,
    venue: 'place',
    gives: bodies.PLACED,
  },
  {
    endpoint: 'get /orders',
    path: '/orders?status=open&symbol=SOL-USDC&after=0&limit=500',
    status: 200,
    venue: 'orders',
    gives: { items: [ORDER], next_after: 1 },
  },
  {
    endpoint: 'get /orders/{order_id}',
    path: `/orders/${ORDER_ID}`,
    status: 200,
    venue: 'order',
    gives: { ...ORDER, fills: [FILL] },
  },
  {
    endpoint: 'put /orders/{order_id}',
    path: `/orders/${ORDER_ID}`,
    json: bodies.MODIFY,
    status: 202,
    venue: 'modify',
    gives: { old_order_id: ORDER_ID, ...bodies.PLACED },
  },
  {
    endpoint: 'delete /orders/{order_id}',
    path: `/orders/${ORDER_ID}`,
    json: bodies.CANCEL,
    status: 200,
    venue: 'cancel',
    gives: bodies.CANCELLED,
  },
  {
    endpoint: 'post /orders/{order_id}/cancel',
    path: `/orders/${ORDER_ID}/cancel`,
    json: bodies.CANCEL,
    status: 200,
    venue: 'cancel',
    gives: bodies.CANCELLED,
  },
  {
    endpoint: 'post /orders/cancel-all',
    path: '/orders/cancel-all',
    json: bodies.CANCEL,
    status: 200,
    venue: 'cancelAll',
    gives: MASS,
  },
  {
    endpoint: 'post /orders/dead-man',
    path: '/orders/dead-man',
    json: bodies.DEAD_MAN,
    status: 200,
    venue: 'deadMan',
    gives: { expires_slot: null, seq: 1, receipt: RECEIPT },
  },
  {
    endpoint: 'post /orders/check',
    path: '/orders/check',
    json: bodies.CHECK,
    status: 200,
    venue: 'check',
    answers: { ok: true },
  },
  {
    endpoint: 'post /notes/reshape',
    path: '/notes/reshape',
    json: bodies.RESHAPE,
    status: 202,
    venue: 'reshape',
    gives: { ...RESHAPED, receipt: RECEIPT },
  },
  {
    endpoint: 'get /notes/reshape/{reshape_id}',
    path: `/notes/reshape/${ORDER_ID}`,
    status: 200,
    venue: 'reshapeOf',
    gives: RESHAPED,
  },
  {
    endpoint: 'get /nonces',
    path: `/nonces?trading_key=${KEY}`,
    status: 200,
    venue: 'nonces',
    gives: { place_nonce: '0', cancel_nonce: '3' },
  },
  {
    endpoint: 'get /fills',
    path: '/fills',
    status: 200,
    venue: 'fills',
    gives: { items: [FILL], next_after: null },
  },
  {
    endpoint: 'get /events',
    path: '/events',
    status: 200,
    venue: 'events',
    gives: { ...PAGE, items: [bodies.event(1), bodies.event(2, 'fill.matched')] },
  },
  {
    endpoint: 'post /withdrawals',
    path: '/withdrawals',
    json: bodies.WITHDRAWAL,
    status: 202,
    venue: 'withdraw',
    gives: { ...WITHDRAWAL, receipt: RECEIPT },
  },
  {
    endpoint: 'get /withdrawals/{withdrawal_id}',
    path: `/withdrawals/${ORDER_ID}`,
    status: 200,
    venue: 'withdrawal',
    gives: WITHDRAWAL,
  },
]
