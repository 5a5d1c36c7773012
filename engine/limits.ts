/** Every bound of the engine's memory and of what one command may ask, in one place. */

export const LIMITS = {
  /** Live orders of the whole venue; beyond it 503 `order_limit`. */
  orders_live_max: 1_000_000,
  /** Live orders of an account whose record names no other number. */
  account_orders_live_max: 10_000,
  /** Trading keys of an account whose record names no other number; beyond it 503 `key_limit`. */
  account_keys_max: 10_000,
  /** Accounts the venue holds; the operator's listener refuses more. */
  accounts_max: 100_000,
  /** Sockets of one account that may have cancel-on-disconnect armed; the oldest arming gives way. */
  account_origins_max: 64,
  /** Longest life of an order where the operator names none: about a day of 200 ms slots. */
  order_life_slots_max: 432_000,
  /** Continuation anchors of one order. */
  anchors_max: 16,
  /** Bodies in one cancel-all request. */
  cancel_all_items_max: 64,
  /** Inputs, and outputs, of one reshape. */
  reshape_notes_max: 4,
  /** Longest dead-man timer. */
  dead_man_slots_max: 432_000,
  /** An auction is postponed while more matched order parts than this are not landed. */
  unlanded_auction_max: 2_000,
  /** New orders, withdrawals and reshapes are refused while more parts than this are not landed. */
  unlanded_place_max: 10_000,
  /** Withdrawals and reshapes that wait for a settlement batch; beyond it 503 `settlement_backlog`. */
  payments_waiting_max: 10_000,
  /** Payments wait for company only while a settlement batch is unlanded, and no longer than this. */
  payment_wait_slots_max: 25,
  /** Days events, final orders and fills stay readable where the operator names none. */
  retention_days: 30,
  /** Final orders whose ids are kept; past their expiry slot the oldest go first. */
  final_orders_max: 4_000_000,
  /** Withdrawals and reshapes kept after they ended; past their expiry slot the oldest go first. */
  payments_kept_max: 200_000,
  /** Age beyond which an oracle price is no reference. */
  oracle_age_max_ms: 60_000,
  /** Instruments of a venue. */
  instruments_max: 1_024,
  /** Exit requests that are open at a time. */
  exits_open_max: 10_000,
} as const

export const MS_PER_DAY = 86_400_000
