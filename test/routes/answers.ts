/** Answers of the venue as it would give them, one of each shape. */
import type * as wire from '../../protocol/wire/trading'
import * as bodies from './bodies'

const { HASH, KEY, ORDER_ID, RECEIPT, SIGNATURE } = bodies
export const TX = '5VERv8NMvzbJMEkV8xnrLkEaWRtSz9CosKDYjCJjBRnbJLgp8uirBgmQpjKhoR4tjF3ZpRzrFmBV6UjKdiSZkQUW'

export const WITHDRAWAL: wire.Withdrawal = {
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
export const ACCOUNT: wire.AccountView = {
  account_id: HASH,
  account_key: KEY,
  state: 'active',
  version: 1,
  limits: { rate_capacity: 100, rate_refill_per_s: 50, orders_live_max: 10, keys_max: 2 },
  credential_version: 2,
  credentials: [{ credential_id: ORDER_ID, kind: 'read', version: 2, expiry_s: 0, created_slot: 1 }],
  keys: [KEY],
  changes: [{ seq: 1, slot: 1, unix_ms: 5, change: 'admission', state: 'active', version: 1 }],
}
export const RESHAPED: wire.Reshape = {
  reshape_id: ORDER_ID,
  inputs: [HASH],
  outputs: [{ commitment: HASH, amount: '1' }],
  status: 'accepted',
  seq: 5,
}
export const INSTRUMENT: wire.Instrument = {
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
export const STATUS: wire.SystemStatus = {
  ready: false,
  matching: 'paused',
  settlement: 'degraded',
  chain: { slot: 1, lag_ms: 2, genesis_hash: KEY },
  enclave: 'development',
  draining: false,
  reasons: ['chain_lag'],
}
export const INCLUSION: wire.TreeInclusion = {
  commitment: HASH,
  leaf_index: 0,
  siblings: Array.from({ length: 40 }, () => HASH),
  root: HASH,
  leaf_count: 1,
  usable: true,
}
export const INSTRUMENT_VIEW: wire.InstrumentView = {
  ...INSTRUMENT,
  reference: { price: '1', until_unix_s: 3_600 },
}
const WITHHELD = { open: null, high: null, low: null, close: null, volume: null, auctions: null }
export const STATISTICS: wire.Statistics = {
  symbol: 'SOL-USDC',
  period: 'day',
  items: [
    {
      start_unix_s: 86_400,
      open: '1',
      high: '1',
      low: '1',
      close: '1',
      volume: '1',
      auctions: 1,
      previous: HASH,
      hash: HASH,
    },
    { start_unix_s: 172_800, ...WITHHELD, previous: HASH, hash: HASH },
  ],
  next_after: null,
  signed: { epoch: 1, statement_key: KEY, certificate: SIGNATURE, signature: SIGNATURE },
}
export const TRANSPARENCY: wire.Transparency = {
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
  reading: { slot: 1, age_ms: 0, stale: false },
  announced: [{ list: 'build', id: HASH, value: '' }],
  tree: {
    root: HASH,
    leaf_count: 1,
    remaining_days: null,
    spent_root: HASH,
    spent_count: 0,
    spent_log_root: HASH,
    spent_log_count: 0,
  },
  spent_log_remaining_days: 1,
  payout_queue: { length: 0, oldest_slot: null },
  exits: [{ nullifier: HASH, deadline: 1 }],
  settlement: { signer: KEY, epoch: 1, generation: 0, last_batch: 1, last_signature: null, finality: [] },
  auditor_key: null,
  admin: { pending: [{ action: 'pause', effective_unix_s: 1, value: '' }] },
  outages: [{ outage_at_s: 1, outage_extra_s: 2 }],
  builds: [{ compose_hash: HASH, tacit_version: '1.2.3', from_slot: 1 }],
  epochs: [{ epoch: 1, from_slot: 1 }],
  batches: { closed: 3, matched: 1, void: 1, since_slot: 1 },
  statistics: { days: [{ day: '2026-01-01', symbol: 'SOL-USDC', fills: null, volume: '1' }] },
}
export const ATTESTATION: wire.Attestation = {
  quote: 'ab',
  event_log: '[]',
  report_data: '00'.repeat(64),
  vm_config: '{}',
  tee_pubkey: KEY,
  enclave: 'dstack',
  binding: {
    body: 'cd',
    signature: SIGNATURE,
    certificate: 'ef',
    certificate_signature: SIGNATURE,
    statement_key: KEY,
  },
}
export const TIME = { slot: 1, unix_ms: 2, slot_ms: 401.5 }
export const TOKENS = { access_token: 't', token_type: 'Bearer', expires_in: 900, account_id: 'acct-1' }
export const CREDENTIALS = { api_key: 'k', api_secret: 's', passphrase: 'p' }
export const MASS = { cancelled: [ORDER_ID], pending: [], seq: 1, receipt: RECEIPT }
