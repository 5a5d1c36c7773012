/** The layout of a snapshot's tables. Objects refer to each other by their position in the table before. */
import type { HaltReason, Settings } from '../commands'
import { blob, fixed, hex, i128, json, list, option, struct, text, u64, uint, word } from './codec'
import { HALT_REASONS } from './command_codec'
import type { Epoch } from './state'

const b32 = fixed(32)
const SIDES = ['buy', 'sell'] as const
const STAGES = ['matched', 'submitted', 'confirmed', 'finalized', 'voided'] as const
const INSTRUMENT_STATUSES = ['active', 'paused', 'closed'] as const

export const heading = struct<{
  settings: Settings | undefined
  slot: number
  unix_ms: number
  epoch: number
  epochs: Epoch[]
  halted: HaltReason | undefined
}>({
  settings: option(json<Settings>()),
  slot: uint,
  unix_ms: uint,
  epoch: uint,
  epochs: list(
    struct<Epoch>({
      epoch: uint,
      boot_nonce: fixed(16),
      generation: uint,
      signature: fixed(64),
      transaction: blob,
      slot: uint,
    }),
  ),
  halted: option(word(HALT_REASONS)),
})

export const mint_row = struct({
  text,
  min_withdraw: u64,
  withdraw_fee: u64,
})

export const instrument_row = struct({
  terms: struct({
    symbol: text,
    base: uint,
    quote: uint,
    base_decimals: uint,
    lot_size: u64,
    tick_size: u64,
    quote_per_lot_tick: i128,
    batch_slots: uint,
    collar_bps: uint,
    fee_bps: uint,
    initial_reference_ticks: uint,
    reference_policy: word(['last', 'oracle']),
    price_rule: word(['std4', 'ref']),
    volume_tolerance_bps: uint,
  }),
  status: word(INSTRUMENT_STATUSES),
  reference_ticks: option(uint),
  reference_unix_ms: uint,
  reference_source: text,
  next_batch: uint,
})

export const account_row = struct({
  account_id: text,
  version: uint,
  status: word(['active', 'suspended']),
  orders_live_max: uint,
  keys_max: uint,
  record: blob,
  seq: uint,
  armed: list(text),
})

export const key_row = struct({
  bytes: b32,
  account: uint,
  place_nonce: u64,
  cancel_nonce: u64,
  dead_man_slot: uint,
})

export const fill_row = struct({
  account: uint,
  order_id: hex(16),
  fill_index: uint,
  symbol: text,
  side: word(SIDES),
  price: u64,
  amount: u64,
  quote_amount: u64,
  fee: u64,
  batch: uint,
  settlement_batch: uint,
  anchor_index: uint,
  slot: uint,
  proceeds: option(uint),
  change: option(uint),
  stage: word(STAGES),
  signature: option(text),
  seq: uint,
})
