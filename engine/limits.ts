/** Sets every bound of the engine: sizes, queues, waits and rates. */
import { ANCHORS_MAX } from '../protocol/limits'

export const LIMITS = {
  // Settings: defaults, and the ranges that an operator may choose from

  /** Default for the longest life of an order: about a day of 200 ms slots. */
  order_life_slots_max: 432_000,
  order_life_setting_slots_max: 2 ** 32,
  /** Default for the days that events, closed orders and fills stay readable. */
  retention_days: 30,
  retention_setting_days_max: 3_650,
  /** Life of a bearer token. */
  token_ttl_min_s: 60,
  token_ttl_max_s: 86_400,
  /**
   * Parts of a settlement batch. Below the minimum a reshape of four notes into four would not fit; a v1 transaction
   * carries 28.
   */
  settlement_parts_min: 3,
  settlement_parts_max: 28,
  /** Each has its own book and auctions; a row of an order names one in 16 bits. */
  instruments_max: 256,
  /** Slots between two auctions of an instrument. */
  batch_slots_max: 100_000,
  /** Fee of an instrument: a tenth of the value. */
  fee_bps_max: 1_000,
  /** Maximum age of an oracle price. */
  oracle_age_min_ms: 1_000,
  oracle_age_max_ms: 60_000,

  // Accounts and logins

  /** Accounts of the venue; a further admission is rejected. */
  accounts_max: 100_000,
  /** Credentials of one account, and changes that GET /account lists. */
  account_credentials_max: 16,
  account_changes_max: 64,
  /** Tokens of one credential; a further login revokes the oldest. */
  credential_tokens_max: 64,
  /** Ended tokens that are remembered, so that they are answered as expired or revoked. */
  tokens_dead_max: 65_536,
  /** Interval of attempts to journal that a token has ended. */
  token_end_retry_ms: 1_000,
  /** Passphrase checks running or queued; beyond it 429 `login_busy`. */
  logins_waiting_max: 64,
  /** The same per credential. */
  credential_logins_waiting_max: 2,
  /** Credentials of which it is known when their passphrase was checked last. */
  credentials_checked_max: 16_384,
  /** Approximate duration of one passphrase check; excess callers are asked to retry after it. */
  login_check_ms: 300,
  /** Token bucket of wrong credentials per api key: burst and refill. */
  wrong_secrets_capacity: 10,
  wrong_secrets_refill_per_s: 1,
  /** Buckets that count wrong credentials, shared by all api keys. */
  wrong_secret_buckets: 4_096,

  // Orders and commands

  /** Live orders of the whole venue: the bounds of all accounts add up to at most this. */
  orders_live_max: 1_000_000,
  /** Trading keys bound in the whole venue; the account's bound is in its record. */
  trading_keys_max: 1_000_000,
  /** Sockets of one account with cancel-on-disconnect armed; beyond it 429 `connection_limit`. */
  account_origins_max: 64,
  /** Continuation anchors of one order. */
  anchors_max: ANCHORS_MAX,
  /** An oracle price may be published this far ahead of the venue's clock. */
  oracle_ahead_max_ms: 5_000,
  /** Epochs that starts intended, with the transaction of each; the one that opened stays. */
  epochs_kept_max: 1_024,
  /** Exit requests open at a time. */
  exits_open_max: 10_000,
  /** Places of the vault's payout queue until the chain shows another number. */
  queue_capacity_first: 60,
  /**
   * How long the ids of closed orders stay in memory once the stores have them: a fresh nonce needs an id that is none of theirs.
   * A number of them would show an account how many orders of others have closed.
   */
  final_orders_kept_ms: 10_000,
  /** Withdrawals and reshapes, beyond which the oldest that ended are deleted. */
  payments_kept_max: 200_000,

  // Settlement backlog

  /** An auction is postponed while more matched order parts than this have not landed. */
  unlanded_auction_max: 2_000,
  /** New orders, withdrawals and reshapes are rejected while more parts than this have not landed. */
  unlanded_place_max: 10_000,
  /** Withdrawals and reshapes waiting for a settlement batch; beyond it 503 `settlement_backlog`. */
  payments_waiting_max: 10_000,
  /** While a settlement batch is unlanded, payments wait at most this long to share a batch with others. */
  payment_wait_slots_max: 25,

  // Sequencer

  /** Signatures that wait for the end of a turn; this many are verified at once. */
  verified_together_max: 256,
  /** Commands applied in memory and not yet on disk; beyond it 503 `matching_unavailable`. */
  queue_commands_max: 16_384,
  /** A durable command whose release has to wait longer is answered 503 `outcome_unknown`; interval of the check. */
  outcome_unknown_after_ms: 5_000,
  release_look_ms: 20,
  /** Bytes of records written as one group, unless a single command needs more. */
  group_bytes_max: 1_048_576,
  /** Finalized leaves of one journal record. */
  leaves_per_command_max: 4_096,
  /** Receipts kept to answer a resend with the original proof; the oldest are evicted. */
  receipts_kept_max: 65_536,

  // Journal and snapshots

  /** Default size of a journal segment file. */
  journal_segment_bytes: 64 * 1024 * 1024,
  /** Smallest and largest segment file: eight sectors, 1 GiB. */
  journal_segment_bytes_min: 4_096,
  journal_segment_bytes_max: 1024 * 1024 * 1024,
  /** Zeros of the next segment that are written and synced at once, and the rest after them: 64 MiB take 2 seconds or more. */
  journal_spare_piece_bytes: 262_144,
  journal_spare_rest_ms: 5,
  /** One write of the journal, and so the largest group. */
  journal_write_bytes_max: 4 * 1024 * 1024,
  /** Groups appended to the journal and not yet durable; one more closes it. */
  journal_pending_groups_max: 65_536,
  /** Interval at which a write that found the disk full is tried again. */
  disk_retry_ms: 500,
  /**
   * Attempts to read bytes that come otherwise than they were written, and the wait between two, which may hold the main
   * thread.
   */
  disk_read_attempts: 3,
  disk_reread_ms: 20,
  /** After it a request to the replicated log counts as unanswered, and goes to the next member after the pause. */
  log_request_ms: 1_000,
  log_retry_ms: 50,
  /** A larger sealed entry is written in parts: etcd takes requests of 1.5 MiB, in base64 two thirds of it. */
  log_part_bytes: 640 * 1024,
  /** Parts of one read: the largest group has fewer. */
  log_read_parts: 16,
  /** An answer of etcd: the parts of one read in base64, with room for their keys. */
  log_answer_bytes_max: 16 * 1024 * 1024,
  /** Commas and opening brackets in it: the reports of all nodes have about 500. */
  log_answer_values_max: 4_096,
  /** Interval at which a node that follows asks for more, and at which the leader shows that it lives. */
  log_poll_ms: 50,
  leader_beat_ms: 150,
  /** A node that could not read the log for so long says so. */
  log_unread_ms: 3_000,
  /** Time after a beat was sent in which its leader answers reads of accounts, and the part of it that a revocation waits. */
  right_ms: 1_000,
  right_wait: 1.25,
  /** Newest groups of which a node that follows knows the hash, by which it recognises the journal of the leading one. */
  group_ends_max: 8_192,
  /**
   * Requests of one account, and of its credentials that only read, that wait at a node that follows for the leading one; one
   * more is answered 503 `matching_unavailable`. And pages of it, which are read one after the other.
   */
  passed_account_max: 256,
  pages_account_max: 8,
  /** After so long without a sign of the leader a node takes the next term. */
  leader_silence_ms: 700,
  /** Longest time from a term to the service of its node, while which another node leaves it the term. */
  term_opening_ms: 60_000,
  /** Intervals at which a follower reports the end of its journal, and at which the leader removes entries. */
  node_report_ms: 1_000,
  /** A node that writes no report within it is not live. */
  node_live_ms: 2_500,
  /** Times that a leader which is to end looks for a live node to give its term to. */
  successor_looks: 4,
  /** Records that a node may lack, by its newest report, which the leader gives its term to. */
  handover_records_max: 20_000,
  /** Longest wait of commands for the node that the term was given to. */
  handover_ms: 10_000,
  /** Requests that wait at a node that follows for it. */
  handover_waits_max: 4_096,
  /** Time after which streams may reconnect to it. */
  handover_retry_after_ms: 500,
  log_trim_ms: 5_000,
  /** A node without a new report for so long has its entries removed; in a log above its bound, after the second time. */
  node_silence_ms: 600_000,
  node_silence_full_ms: 10_000,
  /** Bytes in use by a member of etcd (quota 2 GiB): nothing is removed below the first, above the second it is full. */
  log_kept_bytes: 128 * 1024 * 1024,
  log_bytes_max: 512 * 1024 * 1024,
  /** Reports of nodes that the leader reads; with so many nothing is removed until the log is full. */
  log_nodes_max: 64,
  /** Readings of the chain, one a slot, before a start finds that it lacks an epoch of the journal. */
  start_reads_max: 8,
  /** Slots until the chain shows the epoch that this start opened; one that a fork took back is made again meanwhile. */
  epoch_slots_max: 512,
  /** Readings of the chain, one a slot, until it shows the epoch of an entry. */
  follower_reads_max: 64,
  /** Groups of one append, unless a single one is larger. */
  log_entry_bytes: 512 * 1024,
  /** Entries are padded to a multiple of it before they are sealed. */
  log_entry_step_bytes: 1_024,
  /** Free space below which orders and reshapes are rejected, so that cancels, withdrawals and a drain find some. */
  disk_reserve_bytes: 256 * 1024 * 1024,
  /** A volume with fewer free inodes counts as full: segments, snapshots and stores are new files. */
  disk_inodes_min: 64,
  /** Interval at which free space is measured. */
  disk_look_ms: 1_000,
  /** Interval at which one old segment or snapshot is verified. */
  scrub_every_ms: 10_000,

  // Stores

  /** Parts of one level that are merged into one of the next. */
  store_parts_per_level: 4,
  /** Opened blocks of 4 KiB in memory. */
  store_blocks_max: 4_096,
  /** Blocks that each snapshot reads only to notice damage. */
  store_blocks_scrubbed: 16_384,
  /** Rows in the state, 30 to 110 bytes each and as much for their tables; beyond it nothing that makes more is accepted. */
  rows_waiting_max: 4_000_000,
  /** Leaves and batches between two saves of the trees' edges. */
  tree_save_every: 4_096,
  /** Parts of one level of a tree, 32 KiB each, kept in memory in addition to the last one. */
  tree_parts_cached_max: 8,

  // History

  /** Events recorded in the history and not yet written; one record more throws. */
  history_backlog_events_max: 1_000_000,
  /** Events the history may lag before the next group waits for it, in operation and in a replay. */
  history_lag_live_events_max: 40_000,
  history_lag_replay_events_max: 50_000,
  /** Longest wait of a group for a lagging history. */
  history_wait_ms: 20,
  /**
   * A write to the history starts when it holds this many events, or after the delay. Each commit writes again every page of the
   * ids that it touches, and ids are random, so fewer and larger ones cost an order less.
   */
  history_batch_events_max: 8_192,
  history_batch_delay_ms: 500,
  /** Memory for the events of a batch, at first. */
  history_log_bytes: 1 << 20,
  /** Larger memory of a batch is not used again. */
  history_log_kept_bytes: 1 << 23,
  /** Records without events after which the watermark alone is written. */
  history_batch_records_max: 4_096,
  /** Writes in flight to the history's thread. */
  history_batches_in_flight_max: 4,
  /** Events, and bytes, of one sealed row: reading one event opens the whole row. */
  history_block_events_max: 32,
  history_block_bytes_max: 32_768,
  /**
   * Bytes of a sealed row for each of its events, which are mostly shorter: its length shows their number and not their
   * content.
   */
  history_event_bytes: 640,
  /** Time one sealed row spans: it is deleted when its last event is old. */
  history_block_span_max_ms: 60_000,
  /**
   * Orders of one era of the index of their ids: a write touches some 200 pages of it. Each so many eras, the next ones are twice
   * as long: 48 of them hold 8,000,000 orders, and a search through all takes 0.7 us for each.
   */
  history_era_orders: 16_384,
  history_eras_per_doubling: 8,
  /** Rows one step of pruning deletes, so that writes are not blocked for long. */
  history_prune_rows_max: 500,
  prune_every_ms: 3_600_000,
  /** Duty cycle of the history's thread: it works, then sleeps, because request threads share its core. */
  history_work_ms: 1,
  history_rest_ms: 2,
  /** Blinded names, and numbers of accounts, kept in memory; the map is cleared beyond it. */
  history_marks_max: 10_000,
  history_accounts_max: 100_000,
  /** Longest wait for another connection's lock, when the database is opened and when it is read. */
  history_open_wait_ms: 10_000,
  history_read_wait_ms: 1_000,
  /** Page cache of the writing connection. */
  history_cache_kib: 16_384,
  /**
   * Changed rows after which the write-ahead log is merged. Ids look random, so each order touches different pages, and rarer
   * merges write each page less often. The log has about 4 KiB for each: 131 MB at 300,000 orders, half of the space below
   * which the venue takes no orders.
   */
  history_merge_rows: 32_768,
  /** Bytes of the history that the disk is given at once. */
  history_write_out_bytes: 131_072,

  // Reads and streams

  /** Tokens of one unit that a read takes: an event opened; other rows count by `READ_UNITS`. */
  read_unit_tokens: 0.004,
  /** Events or orders of one slice of a resuming stream or a snapshot, and the rest after it, as a multiple of its time. */
  slice_rows: 100,
  read_rest_factor: 2,
  /** Rows that one filtered page of orders scans before it ends early with `next_after`. */
  history_scan_rows_max: 5_000,
  /** Characters of the cache of opened event blocks. */
  history_blocks_characters_max: 16 * 1024 * 1024,
  /** Characters of the cache of pages and orders. */
  reads_characters_max: 16 * 1024 * 1024,
  /** Characters of the cache of public facts. */
  facts_characters_max: 1024 * 1024,
  /** Public facts that wait for space on a full disk. */
  facts_waiting_max: 100_000,
  /** Of them, the most that one group stores or tries to store. */
  facts_stored_max: 256,
  /** Time for which one read of the chain answers all callers. */
  chain_reading_fresh_ms: 2_000,
  /** Time between two measurements of the trees' growth. */
  growth_mark_ms: 3_600_000,
  /** An hour or a day with fewer accounts withholds the numbers of an instrument: five were too cheap to imitate. */
  statistics_accounts_min: 20,
  /** Between the end of an hour or day and its row: a full hour and a full batch. */
  statistics_delay_ms: 3_660_000,
  /** Rows published at a time: after a long pause the rest follows with later reads. */
  statistics_rows_max: 50,
  /** Whole days between the end of a day and its publication in `/transparency`, and days that are published there. */
  statistics_delay_days: 1,
  statistics_days_max: 30,
  /** Openings of epochs, and final settlement batches, in `/transparency`. */
  course_entries_max: 64,
  /** Streams of one account: of trading credentials, and as many of credentials that only read. */
  account_streams_max: 64,
  /** Streams of the whole venue; beyond it 503 `connection_limit`. */
  streams_max: 10_000,

  // Close, commit, match

  /** Without an agreed slot for longer than these slots, or after a larger jump, the chain has stalled; not before the time. */
  stall_slots: 12,
  stall_jump_slots: 16,
  stall_min_ms: 2_000,
  /** A commit lands until the chain's clock is this far beyond that of the close: not after a halt of the cluster. */
  commit_clock_s: 30,
  /** Multiple of `commit_ms` after which a batch that the chain has not decided makes the venue not ready. */
  commit_delay: 2,
  /** Time that the answer to a deferred command waits for the decision. */
  deferred_answer_ms: 8_000,

  // Anchoring

  /** Fraction of `anchor_max_ms` at which a record's age begins an anchor: the rest is for landing it. */
  anchor_begins_at: 0.6,
  anchor_retry_ms: 5_000,
  /** Records of this span share one mark and count as old as the first of them. */
  anchor_mark_ms: 500,
  /** Longest wait for an anchor to land: a shutdown waits for it, but not for a stalled chain. */
  anchor_landing_max_ms: 60_000,

  // Leases

  /** Ranges and defaults of `lease_ms`, `anchor_max_ms`, `commit_ms` and `reopen_slots`. */
  lease_min_ms: 100,
  lease_max_ms: 60_000,
  cluster_lease_max_ms: 3_000,
  lease_ms: 8_000,
  anchor_max_min_ms: 1_000,
  anchor_max_max_ms: 60_000,
  anchor_max_ms: 30_000,
  /** Five slots of 400 ms: in fewer, a commit that lands late once leaves most batches void. */
  commit_min_ms: 2_000,
  commit_max_ms: 60_000,
  commit_ms: 6_400,
  reopen_slots_max: 1_000,
  reopen_slots: 10,
  /** Shortest interval at which a provider is asked whether the own epoch is the chain's. */
  lease_look_ms: 100,
  /** Multiple of `lease_ms` after which a predecessor's lease is over at any permitted rates of the two clocks. */
  lease_wait: 1.25,

  // Boot and shutdown

  /** Batches of one `spent_restored` record, each with at most 96 nullifiers. */
  restore_batches_per_command_max: 128,
  /** Leaves appended in one call to the hashing worker. */
  hash_leaves_per_call_max: 4_096,
  /** After a restart, time for traders with armed sockets to return before their orders are cancelled. */
  disconnect_grace_ms: 60_000,
  /** Interval in which it is counted, the most that one tick counts, and how much the next leader may count again. */
  disconnect_tick_ms: 250,
  disconnect_tick_max_ms: 1_000,
  disconnect_drift_ms: 2_000,
  /** Longest wait of a shutdown for batches to land, and then for its anchor; both resume at the next boot. */
  stop_landing_ms: 20_000,
  stop_anchor_ms: 10_000,
  /** Time after which clients may reconnect after a restart. */
  restart_retry_after_ms: 15_000,

  // RPC

  /** Longest wait for one answer of an RPC endpoint. */
  rpc_call_ms: 10_000,
  /** Attempts of one read over all endpoints, with exponential backoff from the first to the longest wait. */
  rpc_attempts_max: 6,
  rpc_backoff_first_ms: 40,
  rpc_backoff_max_ms: 2_000,
  /** Requests to one provider under way at a time; the runtime allows 256 to all hosts together. */
  rpc_pending_max: 64,
  /** Wait for the other providers once a quorum has answered, and for a blockhash before the next provider is asked. */
  rpc_grace_ms: 1_000,
  /** Signatures of one getSignatureStatuses, and accounts of one getMultipleAccounts. */
  rpc_statuses_max: 256,
  rpc_accounts_max: 100,
  /** Longest wait for the loops when the chain closes. */
  chain_close_ms: 1_000,

  // Slot view

  /** Slot changes over which the slot time is measured, and the number required for a measurement. */
  slot_samples_max: 256,
  slot_samples_min: 8,
  /** Poll interval of the slot: a third of the slot time within these bounds. */
  slot_poll_min_ms: 5,
  slot_poll_max_ms: 200,
  /** The chain counts as stalled after this many slots without a new one, and not before the minimum time. */
  chain_stall_slots: 25,
  chain_stall_min_ms: 5_000,
  /** An answer counts if its slot is at most this far behind the agreed one; a provider may deviate for as long. */
  chain_lag_slots_max: 8,
  /** A provider that claims to be further ahead raises an alarm; a reading further behind is stale. */
  chain_ahead_slots_max: 150,
  /** The agreed slot advances at most by this and one slot per `slot_ms_min`; a real jump follows a suspended machine. */
  slot_jump_max: 100_000,
  slot_ms_min: 50,
  /** Age of the chain view beyond which the venue is not ready. */
  chain_lag_max_ms: 30_000,

  // Relayer

  /** Settlement batches signed and sent before their predecessors have landed. */
  batches_ahead_max: 32,
  /** Batches that must land in order before the window doubles again after a reordering. */
  batches_in_order: 32,
  /** Signatures of one batch while it is not next to land. */
  batch_signings_ahead_max: 4,
  /** Batches ahead that are journaled together. */
  batches_journaled_max: 8,
  /** Slots between two broadcasts of the same bytes. */
  rebroadcast_slots: 4,
  /** A blockhash lives 150 blocks; a provider that names a later end by more than twice as many invents it. */
  blockhash_life_max: 300,
  /** A batch next to land, an exit request or a payout that is open for longer makes the venue not ready. */
  settlement_delay_slots_max: 300,
  /** Verified states of the note tree that are kept; the chain keeps 128 and older ones cannot be cited. */
  tree_states_kept: 512,
  /** The priority fee grows in proportion to the time that a batch or instruction waits beyond this. */
  fee_growth_after_ms: 2_000,
  /** Slots between two polls of the payer's balance. */
  payer_look_slots: 75,
  /** Slots between two reads of the announcements: five minutes. */
  announced_look_slots: 750,

  // Exit requests

  /** Slots between two polls; a request's deadline is days away. */
  exits_look_slots: 8,
  /** Roots of the spent log among which an exit refusal looks for one that the chain keeps: it keeps one of 18 slots. */
  exit_refusal_roots_max: 128,
  /** Longest wait for an instruction that ends an exit request, or adds places to the payout queue, to land. */
  exit_end_max_ms: 60_000,

  // Payout queue

  /** Payments sent and not ended. */
  payments_in_flight_max: 64,
  /** A larger destination is paid in a separate transaction. */
  payout_destination_bytes_max: 1_024,
  /** Age from which the program returns an entry as a note without a transfer. */
  payout_refund_after_s: 7 * 86_400,
  /** Places of the payout queue when it cannot grow further. */
  queue_capacity_max: 1_020,
  /** Times that the wait before the next attempt doubles, from `exits_look_slots`. */
  retry_doublings_max: 12,
} as const

/** Snapshot interval in records, which bounds the replay of a boot, and in time; `look_ms` is the poll interval. */
export const SNAPSHOT_PACE = { records: 200_000, every_ms: 600_000, look_ms: 1_000 }

/**
 * The cost of reads in addition to an event, whose row is in a sealed block with its neighbours; `passed` is a row that a
 * filter skips.
 */
export const READ_UNITS = { event: 1, order: 2, fill: 5, passed: 0.1 }

export const MS_PER_DAY = 86_400_000
