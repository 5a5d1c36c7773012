/** Every bound of the engine's memory and of what one command may ask, in one place. */
import { ANCHORS_MAX } from '../protocol/bodies/place'
import { RESHAPE_NOTES_MAX } from '../protocol/bodies/reshape'

export const LIMITS = {
  /** Live orders of the whole venue; beyond it 503 `order_limit`. */
  orders_live_max: 1_000_000,
  /** Live orders of an account whose record names no other number. */
  account_orders_live_max: 10_000,
  /** Trading keys of an account whose record names no other number; beyond it 503 `key_limit`. */
  account_keys_max: 10_000,
  /** Accounts the venue holds; the operator's listener refuses more. */
  accounts_max: 100_000,
  /** Tokens of one account; a further login revokes the oldest. */
  account_tokens_max: 64,
  /** Dead tokens whose end is remembered, so that they are answered as expired or revoked. */
  tokens_dead_max: 65_536,
  /** Passphrases being checked or waiting for it; beyond it 429 `login_busy`. */
  logins_waiting_max: 16,
  /** Of these, those of one account. */
  account_logins_waiting_max: 4,
  /** Buckets that count wrong credentials, shared by all api keys. */
  wrong_secret_buckets: 4_096,
  /** Sockets of one account that may have cancel-on-disconnect armed; the oldest arming gives way. */
  account_origins_max: 64,
  /** Longest life of an order where the operator names none: about a day of 200 ms slots. */
  order_life_slots_max: 432_000,
  /** Continuation anchors of one order. */
  anchors_max: ANCHORS_MAX,
  /** Bodies in one cancel-all request. */
  cancel_all_items_max: 64,
  /** Inputs, and outputs, of one reshape. */
  reshape_notes_max: RESHAPE_NOTES_MAX,
  /** Longest dead-man timer. */
  dead_man_slots_max: 432_000,
  /** An auction is postponed while more matched order parts than this are not landed. */
  unlanded_auction_max: 2_000,
  /** New orders, withdrawals and reshapes are refused while more parts than this are not landed. */
  unlanded_place_max: 10_000,
  /** Withdrawals and reshapes that wait for a settlement batch; beyond it 503 `settlement_backlog`. */
  payments_waiting_max: 10_000,
  /** Settlement batches signed and sent before their predecessors have landed. */
  batches_ahead_max: 32,
  /** Batches that land in order before twice as many go ahead again after an overtaking. */
  batches_in_order: 32,
  /** How often a batch is signed at most while it is not next to land. */
  batch_signings_ahead_max: 4,
  /** Batches that may follow one whose spent root an exit refusal cites; the chain keeps 32 such roots. */
  batches_behind_refusal_max: 24,
  /** Payments wait for company only while a settlement batch is unlanded, and no longer than this. */
  payment_wait_slots_max: 25,
  /** Days events, final orders and fills stay readable where the operator names none. */
  retention_days: 30,
  /** Final orders whose ids are kept; past their expiry slot the oldest go first. */
  final_orders_max: 4_000_000,
  /** Withdrawals and reshapes kept after they ended; past their expiry slot the oldest go first. */
  payments_kept_max: 200_000,
  /** Longest and shortest age an operator may allow an oracle price before it is no reference. */
  oracle_age_max_ms: 60_000,
  oracle_age_min_ms: 1_000,
  /** An oracle price may be published this far ahead of the venue's clock. */
  oracle_ahead_max_ms: 5_000,
  /** Instruments of a venue. */
  instruments_max: 1_024,
  /** Exit requests that are open at a time. */
  exits_open_max: 10_000,
  /** Commands applied in memory and not yet on disk; beyond it 503 `matching_unavailable`. */
  queue_commands_max: 16_384,
  /** Commands whose signatures wait for the signature thread; beyond it 503 `matching_unavailable`. */
  signatures_waiting_max: 16_384,
  /** Bytes of records written as one group, unless a single command needs more. */
  group_bytes_max: 1_048_576,
  /** Finalized leaves one journal record carries. */
  leaves_per_command_max: 4_096,
  /** Receipts kept to answer a resend with the original proof; the oldest go first. */
  receipts_kept_max: 65_536,
  /** Streams of one account. */
  account_streams_max: 64,
  /** Streams of the whole venue; beyond it 503 `connection_limit`. */
  streams_max: 10_000,
  /** Events one read or one step of a resuming stream takes. */
  page_items_max: 500,
  /** Leaves one page holds. */
  page_leaves_max: 10_000,
  /** Age beyond which the chain view makes the venue not ready. */
  chain_lag_max_ms: 30_000,
  /** Size of a journal segment file where the caller names none. */
  journal_segment_bytes: 64 * 1024 * 1024,
  /** One write of the journal, and so the largest group. */
  journal_write_bytes_max: 4 * 1024 * 1024,
  /** Groups handed to the journal and not yet durable; one more closes it. */
  journal_pending_groups_max: 65_536,
  /** Events the history has recorded and not yet written; one record more throws. */
  history_backlog_events_max: 1_000_000,
  /** Characters of opened blocks of events, and of pages and orders, that are kept for the next reader. */
  history_blocks_characters_max: 16 * 1024 * 1024,
  reads_characters_max: 16 * 1024 * 1024,
  /** The same of rows of public facts. */
  facts_characters_max: 1024 * 1024,
  /** Rows one filtered page of orders looks at before it ends early with `next_after`. */
  history_scan_rows_max: 5_000,
} as const

export const MS_PER_DAY = 86_400_000
