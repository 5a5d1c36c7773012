/** Every bound of the engine's memory and of what one command may ask, in one place. */

export const LIMITS = {
  /** Live orders of the whole venue; beyond it 503 `order_limit`. */
  orders_live_max: 1_000_000,
  /** Live orders of an account whose record names no other number. */
  account_orders_live_max: 10_000,
  /** Trading keys one account may bind; beyond it 503 `key_limit`. */
  account_keys_max: 10_000,
  /** Accounts the venue holds; a further record is refused at the operator's listener. */
  accounts_max: 100_000,
  /** Sockets of one account that may have cancel-on-disconnect armed. */
  account_origins_max: 64,
  /** Longest life of an order where the operator names none: about a day of 200 ms slots. */
  order_life_slots_max: 432_000,
  /** Continuation anchors of one order. */
  anchors_max: 16,
  /** Bodies in one cancel-all request. */
  cancel_all_items_max: 64,
  /** Inputs or outputs of one reshape. */
  reshape_notes_max: 4,
  /** Longest dead-man timer. */
  dead_man_slots_max: 432_000,
  /** An auction is postponed while more matched order parts than this are not landed. */
  unlanded_auction_max: 2_000,
  /** A new order, withdrawal or reshape is refused while more parts than this are not landed. */
  unlanded_place_max: 10_000,
  /** Withdrawals and reshapes waiting for a settlement batch; beyond it 503 `settlement_backlog`. */
  payments_waiting_max: 10_000,
  /** Payments wait for company only while a settlement batch is unlanded, and no longer than this. */
  payment_wait_slots_max: 25,
  /** Days events, final orders and fills stay readable where the operator names none. */
  retention_days: 30,
  /** Ids of final orders kept past their expiry slot; the oldest go first. */
  final_orders_max: 4_000_000,
  /** Withdrawals and reshapes kept readable after they ended; the oldest go first. */
  payments_kept_max: 200_000,
  /** Age beyond which an oracle price is no reference. */
  oracle_age_max_ms: 60_000,
  /** Rounds of conditional drops in one auction; then the remaining conditional orders sit it out. */
  auction_rounds_max: 32,
  /** Notes created here that nobody uses; the oldest finalized go first and then need an opening. */
  notes_free_max: 4_000_000,
} as const

export const MS_PER_DAY = 86_400_000
