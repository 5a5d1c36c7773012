/** States every bound of the engine: its memory, its waits, and the size of one command. */
import {
  ANCHORS_MAX,
  CANCEL_ALL_MAX,
  DEAD_MAN_SLOTS_MAX,
  PAGE_ITEMS_MAX,
  PAGE_LEAVES_MAX,
  RESHAPE_NOTES_MAX,
} from '../protocol/limits'

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
  cancel_all_items_max: CANCEL_ALL_MAX,
  /** Inputs, and outputs, of one reshape. */
  reshape_notes_max: RESHAPE_NOTES_MAX,
  /** Longest dead-man timer. */
  dead_man_slots_max: DEAD_MAN_SLOTS_MAX,
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
  page_items_max: PAGE_ITEMS_MAX,
  /** Leaves one page holds. */
  page_leaves_max: PAGE_LEAVES_MAX,
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

  /** Shortest and longest life an operator may give a bearer token. */
  token_ttl_min_s: 60,
  token_ttl_max_s: 86_400,
  /** Longest order life, and retention, an operator may name. */
  order_life_setting_slots_max: 2 ** 32,
  retention_setting_days_max: 3_650,
  /**
   * Parts of a settlement batch. Fewer could not hold a reshape of four notes into four; a v1 transaction carries 28, one
   * packet six: 458 bytes without them, 128 each, 1,232 in all.
   */
  settlement_parts_min: 3,
  settlement_parts_max: 28,
  settlement_parts_v0_max: 6,
  /** Slots between two auctions of an instrument, and its fee: a tenth of the value. */
  batch_slots_max: 100_000,
  fee_bps_max: 1_000,

  /** Wrong credentials of one api key at once, and how many more each second. */
  wrong_secrets_capacity: 10,
  wrong_secrets_refill_per_s: 1,
  /** About how long one passphrase check takes; callers in excess are asked to retry after it. */
  login_check_ms: 50,

  /** Smallest and largest segment file: eight sectors, 1 GiB. */
  journal_segment_bytes_min: 4_096,
  journal_segment_bytes_max: 1024 * 1024 * 1024,
  /** Snapshots on disk: the newest, and the one before it should the newest be damaged. */
  snapshots_kept: 2,

  /** Events the history may lag before the next group waits for it, in operation and in a replay. */
  history_lag_live_events_max: 20_000,
  history_lag_replay_events_max: 50_000,
  /** A write to the history goes out when it holds this many events, or after the delay. */
  history_batch_events_max: 500,
  history_batch_delay_ms: 125,
  /** Records without events, after which the watermark alone is written, and writes handed over and not yet done. */
  history_batch_records_max: 4_096,
  history_batches_in_flight_max: 4,
  /** Events, and characters, of one sealed row: reading one event opens them all, and some are long. */
  history_block_events_max: 32,
  history_block_characters_max: 32_768,
  /** Time one sealed row spans: it is deleted when its last event is old. */
  history_block_span_max_ms: 60_000,
  /** Rows one step of pruning deletes, so that writes get in between. */
  history_prune_rows_max: 500,
  /** The history's thread writes this long and rests this long: request threads share its core. */
  history_work_ms: 1,
  history_rest_ms: 2,
  /** Blinded names, and numbers of accounts, kept in memory; the map is emptied beyond it. */
  history_marks_max: 10_000,
  history_accounts_max: 100_000,
  /** Longest wait for another connection's lock, when the database is opened and when it is read. */
  history_open_wait_ms: 10_000,
  history_read_wait_ms: 1_000,
  /** Page cache of the writing connection, and pages of the write-ahead log at which it is merged. */
  history_cache_kib: 16_384,
  history_wal_pages: 2_048,
  /** Between two rounds of pruning. */
  prune_every_ms: 3_600_000,
  /** How long one reading of the chain answers every caller. */
  chain_reading_fresh_ms: 2_000,
  /** Below this many accounts on a day the numbers of an instrument are withheld. */
  statistics_accounts_min: 5,
  /** Whole days between the end of a day and its publication, and days that are published. */
  statistics_delay_days: 1,
  statistics_days_max: 30,

  /** Age of a record at which anchoring begins, and the next attempt after a failure; the public promise is 30 s. */
  anchor_after_ms: 20_000,
  anchor_retry_ms: 5_000,
  /** Records of this span share one mark, and count as old as the first of them. */
  anchor_mark_ms: 2_000,
  /** Longest wait for an anchor to land: a shutdown waits for it, but not for a stalled chain. */
  anchor_max_ms: 60_000,
  /** After a restart, how long traders with armed sockets have to return before their orders are cancelled. */
  disconnect_grace_ms: 60_000,
  /** How long a shutdown waits for batches to land, and then for its anchor; both resume at the next boot. */
  stop_landing_ms: 20_000,
  stop_anchor_ms: 10_000,
  /** When clients may return after a restart. */
  restart_retry_after_ms: 15_000,
  /** In a restore: batches of one journal record, each with at most 96 nullifiers, and leaves hashed in one call. */
  restore_batches_per_command_max: 128,
  hash_leaves_per_call_max: 4_096,

  /** Longest wait for one answer of an RPC endpoint. */
  rpc_call_ms: 10_000,
  /** Attempts of one read over all endpoints, with doubled waits from the first to the longest. */
  rpc_attempts_max: 6,
  rpc_backoff_first_ms: 40,
  rpc_backoff_max_ms: 2_000,
  /** Signatures one getSignatureStatuses takes, and accounts one getMultipleAccounts. */
  rpc_statuses_max: 256,
  rpc_accounts_max: 100,
  /** Slot changes over which the slot time is measured, and those it needs. */
  slot_samples_max: 256,
  slot_samples_min: 8,
  /** Between two looks at the slot: a third of the slot time within these bounds. */
  slot_poll_min_ms: 5,
  slot_poll_max_ms: 200,
  /** The chain counts as stalled after this many slots without a new one, and not before this time. */
  chain_stall_slots: 25,
  chain_stall_min_ms: 5_000,
  /** Longest wait for the loops when the chain closes. */
  chain_close_ms: 1_000,
  /** States of the note tree that are kept; the chain keeps 128 and older ones cannot be cited. */
  tree_states_kept: 512,
  /** Slots between two broadcasts of the same bytes. */
  rebroadcast_slots: 4,
  // A blockhash lives 150 blocks. Twice as many slots later a transaction counts as expired whatever height a node claims;
  // should it land after all, the batch id or the epoch on chain lets only one of two take effect.
  transaction_life_slots_max: 300,
  /** A batch that is next to land for longer than this makes settlement degraded. */
  settlement_delay_slots_max: 300,
  /** Batches ahead that wait for the disk together. */
  batches_journaled_max: 8,
  /** Slots between two looks at the exit requests, which have days. */
  exits_look_slots: 8,
  /** Settlement waits this long for an exit refusal, once per request; a root known on chain is cited within the latter. */
  exit_refusal_hold_slots_max: 64,
  exit_refusal_cite_slots: 8,
  /** Longest wait for an exit refusal to land. */
  exit_refusal_max_ms: 60_000,
  /** Between two looks at the payer's balance. */
  payer_look_ms: 30_000,

  /** Longest wait for one answer while a program is deployed or a vault administered. */
  deploy_call_ms: 30_000,
  /** Writes of a deployment under way at the same time. */
  deploy_writes_parallel_max: 8,
  /** Between two looks at a transaction of the operator, and looks until it is sent again. */
  deploy_poll_ms: 200,
  deploy_resend_polls: 5,
  /** How often it is signed before it counts as lost, and looks at the payer's balance: SOL may be on its way. */
  deploy_signings_max: 10,
  deploy_fee_polls_max: 15,
} as const

/** A boot replays at most about this many records; those that come in while a snapshot is made are added. */
export const SNAPSHOT_PACE = { records: 200_000, every_ms: 600_000, look_ms: 5_000 }

export const MS_PER_DAY = 86_400_000
