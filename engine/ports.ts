/**
 * Declares the ports of the engine: the interfaces through which it reaches clocks, keys, chain, hashing and accounts.
 * `server/main.ts` joins the real implementations; tests join their own.
 */

import type { Amount, ChainPoint, JournalSeq, SlotNumber } from '../protocol/units'
import type { AnnouncedEntry } from '../protocol/vault/admin'
import type { AccountLimits, TokenRequest, TokenResponse } from '../protocol/wire/trading'
import type { CommandBody, Credential, HaltReason, JournaledToken } from './commands'
import type { Caller, LimitState, Passed, PassedAnswer, Right, Session } from './venue'

// Clock and keys

/** Wall clock for labels of the process (decisions use the chain's) and a monotonic clock for tokens and limits. */
export interface ClockPort {
  unixMs(): number
  monotonicMs(): number
}

/** Keys and signatures of the enclave. Secret bytes: never logged, never written unencrypted. */
export interface KeysPort {
  /** 32-byte key that encrypts and authenticates the journal and snapshots. */
  readonly journal_key: Uint8Array
  /** 32-byte HMAC key of the batch seeds (matching.md rule 5). */
  readonly tie_break_key: Uint8Array
  /** 32-byte HMAC key under which api secrets are stored. */
  readonly credential_key: Uint8Array
  /** 32-byte seed of the Ed25519 settlement key of this boot; its public key is `tee_pubkey`. */
  readonly settlement_seed: Uint8Array
  /** 32-byte seed of the Ed25519 statement key of this boot, which signs every group of the journal. */
  readonly statement_seed: Uint8Array
}

// Chain: implemented by engine/chain, the only importer of @solana/kit on the server

export interface ChainPort {
  readonly genesis_hash: Uint8Array
  readonly program_id: Uint8Array
  readonly config_account: Uint8Array
  /** Fresh read that a quorum of providers supports, at finalized unless confirmed is asked for. */
  readConfig(level?: 'confirmed'): Promise<VaultConfig>
  readMints(): Promise<VaultMint[]>
  /** Finalized settlement batches with an id above `after`, ascending, as one provider after the other serves them. */
  readSettled(after: number): AsyncIterable<SettledBatch[]>
  /** Confirmed slot now, its age, the measured slot time, and the chain's clock with the time elapsed since its reading. */
  view(): { slot: number; lag_ms: number; slot_ms: number; unix_ms: number }
  /**
   * A quorum's view of config at confirmed since `openEpoch`. `age_ms` is the age of the newest view in which epoch and boot
   * nonce are this instance's, from its request and less the lag of its answer; infinite without one. `covered_seq` is the
   * position there, 0 for one that is not of the own journal; `restore_announced` that a restore is, in this epoch.
   */
  lease(): { age_ms: number; covered_seq: JournalSeq; restore_announced: boolean }
  /**
   * `reasons` are names of `SETTLEMENT_REASONS` and, for each provider under alarm, `PROVIDER_REASON: HOST`; `overdue` if
   * one of them makes the venue not ready.
   */
  health(): { settlement: 'wired' | 'degraded' | 'unwired'; reasons: string[]; overdue: boolean }
  /** Configured providers, how many of them have no alarm, and the fee payer's balance (lamports, undefined before its first reading). */
  figures(): { providers: number; providers_agreeing: number; fee_payer_lamports: bigint | undefined }
  /**
   * Signs the opening of the epoch with a quote over the settlement key, hands the bytes of each signing to `record` before
   * sending, resolves when it has the level, by default finalized. A confirmed opening that a fork takes back is made again.
   * `confirmed_ms` is the monotonic time at which the chain was first seen to have confirmed it.
   * @throws EpochTaken
   */
  openEpoch(
    args: {
      epoch: number
      boot_nonce: Uint8Array
      compose_hash: Uint8Array
      seq: JournalSeq
      head: Uint8Array
      restore: boolean
      level?: 'confirmed'
      /** Whether the own journal passes a position that the chain states; with `restore` any. */
      passes: (position: ChainPoint) => Promise<boolean>
      /** Root of the own spent log after so many batches; undefined beyond the hashed ones. */
      spentRoot: (batches: number) => Promise<Uint8Array | undefined>
    },
    record: (signature: Uint8Array, transaction: Uint8Array) => Promise<void>,
  ): Promise<OpenedEpoch>
  /** Starts watching and relaying. `own_boot_nonces` are the journaled ones; any other on chain means `forked`. */
  start(args: {
    sink: ChainSinkPort
    outbox: OutboxPort
    leaf_count: number
    last_batch: number
    epoch: number
    own_boot_nonces: Uint8Array[]
    /** Journaled exit requests that have not ended. */
    exits_open: ExitRequest[]
  }): void
  /**
   * Stores `own`, the newest journal position, on chain unless the finalized position covers record `seq` already. Resolves
   * once one that does is finalized.
   */
  anchor(seq: JournalSeq, own: { seq: JournalSeq; head: Uint8Array }): Promise<void>
  /**
   * Stores the position of a close as the commit of its batch, while `commit_ms` last, and resolves with the chain's verdict;
   * undefined when the port closes first.
   */
  commit(close: ClosePosition, commit_ms: number): Promise<BatchDecision | undefined>
  /** Record `seq` holds the match of the batch committed last: until that is final, a lost commit is sent again. */
  matched(seq: JournalSeq): void
  close(): Promise<void>
}

/** Journal position of a close, and the slot at which it closed. */
export type ClosePosition = { seq: JournalSeq; head: Uint8Array; slot: SlotNumber }
/** A quorum's view at `slot`: the epoch and the stored commit. `rolled_back`: not of this journal. */
export type BatchDecision = {
  outcome: 'committed' | 'void' | 'rolled_back'
  slot: SlotNumber
  epoch: number
  commit_seq: JournalSeq
}

/** Why settlement is degraded; `overdue` ones make the venue not ready. Never renamed: operators alert on them. */
export const SETTLEMENT_REASONS = {
  rpc_unreachable: 'degraded',
  internal_error: 'degraded',
  no_quorum: 'overdue',
  slot_stalled: 'degraded',
  slot_absurd: 'degraded',
  fee_payer_low: 'degraded',
  no_successor: 'degraded',
  transaction_failing: 'degraded',
  batch_delayed: 'overdue',
  exit_overdue: 'overdue',
  payout_overdue: 'overdue',
  payout_failing: 'degraded',
  commit_reorged: 'overdue',
  commit_undecided: 'overdue',
  program_error: 'degraded',
  vault_frozen: 'degraded',
  vault_paused: 'degraded',
  forked: 'degraded',
  rolled_back: 'degraded',
  root_mismatch: 'degraded',
} as const
export type SettlementReason = keyof typeof SETTLEMENT_REASONS
/** Alarms about one provider, whose host follows the word. */
export const PROVIDER_REASONS = [
  'provider_disagrees',
  'provider_ahead',
  'provider_behind',
  'provider_silent',
] as const
export type ProviderReason = (typeof PROVIDER_REASONS)[number]

/** The chain is past the requested epoch, or the stated position: an earlier run of this instance, or another one, was first. */
export class EpochTaken extends Error {
  override readonly name = 'EpochTaken'
}

export type OpenedEpoch = { slot: SlotNumber; signature: Uint8Array; confirmed_ms: number }

export type VaultConfig = {
  /** That a quorum has reached in each part. */
  slot: SlotNumber
  admin: Uint8Array
  settlement_signer: Uint8Array
  exit_delay_s: number
  epoch: number
  boot_nonce: Uint8Array
  generation: number
  last_batch: number
  journal_seq: JournalSeq
  journal_head: Uint8Array
  /** Journal position of the last commit; 0 and zeros before the first. */
  commit_seq: JournalSeq
  commit_head: Uint8Array
  /** Root of the spent log, whose leaves are the batches up to `last_batch`; from the tree record. */
  spent_root: Uint8Array
  spent_count: number
  queue: PayoutQueue
  leaf_count: number
  note_root: Uint8Array
  frozen: boolean
  paused: boolean
  pending: { action: string; effective_unix_s: number; value: string }[]
  /** Records that epochs may rest on, with the announced changes. */
  announced: AnnouncedEntry[]
  /** The last one declared; undefined before the first. */
  outage: { outage_at_s: number; outage_extra_s: number } | undefined
}

type PayoutQueue = {
  capacity: number
  /** The number that the next payout receives; numbers start at 1. */
  next_number: number
  /** Open entries in ascending order of numbers. */
  entries: (Omit<Payout, 'refund_inner'> & { queued_slot: SlotNumber })[]
}

export type VaultMint = {
  mint: Uint8Array
  vault: Uint8Array
  decimals: number
  balance: bigint
  liabilities: bigint
  freezable: boolean
  min_deposit: bigint
  min_exit: bigint
  slot: SlotNumber
}

/** A settlement batch as read from its event; nullifiers ascending. */
export type SettledBatch = {
  batch_id: number
  nullifiers: Uint8Array[]
  signature: Uint8Array
  slot: SlotNumber
}

/** Receives the chain watcher's observations. Every promise resolves once the fact is durable. */
export interface ChainSinkPort {
  /** A new confirmed slot, monotone. */
  slot(slot: SlotNumber): void
  /** Finalized leaves in leaf order, whose root equals the chain's known state at `first_index + leaves.length`. */
  leaves(first_index: number, leaves: Uint8Array[], slot: SlotNumber): Promise<void>
  /**
   * Resolves with whether the request counts. A `confirmed` one may be a single provider's claim: it counts only with the
   * nullifier and commitment of a note that the engine holds, which its owner alone can know.
   */
  exitRequested(fact: ExitRequest): Promise<boolean>
  /** Places of the payout queue, finalized; reported when the number differs from the last one (60 at first). */
  queueCapacity(capacity: number): Promise<void>
  /** The vault is frozen or paused, or the chain contradicts the journal: matching stops with this reason. */
  halted(reason: HaltReason): void
  /** The providers show that `reason` does not hold, or no longer: a halt for it ends. */
  resumed(reason: HaltReason): void
}

export type ExitRequest = {
  nullifier: Uint8Array
  /** Commitment of the note; the program has verified that its tree contains it. */
  commitment: Uint8Array
  mint: Uint8Array
  amount: Amount
  destination: Uint8Array
  deadline_unix_s: number
  request_account: Uint8Array
  /** Inner hash of the refund note that the program would build; the payout repeats it. */
  refund_inner: Uint8Array
  stage: 'confirmed' | 'finalized' | 'vanished'
  /** Of the finalized commitment, as far as the venue has the tree. */
  leaf_index?: number | undefined
}

// Settlement: the relayer's inputs and reports

/** The relayer's access to the engine. Every promise resolves once the fact is durable. */
export interface OutboxPort {
  /** The hashed, durable payload with this id, or undefined while it does not exist yet. */
  payload(batch_id: number): SettlementPayload | undefined
  /** Resolves when payload(batch_id) may exist. */
  waitForPayload(batch_id: number): Promise<void>
  /** The newest journaled signed transaction of a batch, after a restart. */
  signed(batch_id: number): SignedBatch | undefined
  recordSigned(signed: SignedBatch): Promise<void>
  /**
   * False for a finalized batch of which an output is not yet a leaf of the own tree: it is not recorded, and counts once the
   * leaves are there.
   */
  recordStage(stage: BatchStage): Promise<boolean>
  /** Payouts of batches that are at least confirmed, until each is finally paid or refunded. Ascending by number. */
  openPayouts(): OpenPayout[]
  /**
   * Stages of different payouts come in any order. A number without an open payout is ignored. False for a final refund
   * whose note is not at that leaf of the own tree: it is not recorded, and counts once the leaf is there.
   */
  recordPayout(stage: PayoutStage): Promise<boolean>
  /**
   * Proves that a batch spent the nullifier, under the root of the spent log after `batch_count` batches: the chain's
   * `last_batch`. Undefined when none of these batches spent it, and for a count beyond the hashed batches.
   */
  spentProof(nullifier: Uint8Array, batch_count: number): Promise<SpentProof | undefined>
  /**
   * Drops the exits that a quorum disproves, out of the rejected batch, those behind it and the queue, and ends the process:
   * the epoch that the next one opens fences transactions signed before. Does nothing without one, and until all is hashed.
   */
  dropExits(batch_id: number, isDisproved: (request: ExitRequest) => boolean): Promise<void>
  /** Journal head to store on chain. */
  head(): { seq: JournalSeq; head: Uint8Array }
}

/** Immutable within an epoch (settlement.md): only blockhash, fee, head and cited known state vary when signed again. */
export type SettlementPayload = {
  batch_id: number
  /** Ascending. */
  nullifiers: Uint8Array[]
  /** Ascending by commitment. */
  outputs: { commitment: Uint8Array; memo: Uint8Array }[]
  payouts: Payout[]
  /** A cited known state must have at least this many leaves (covers every deposit spent so far). */
  leaf_count_min: number
}

/** One payout of a settlement batch (a withdrawal or a served exit). */
export type Payout = {
  /** The number that the program gives the payout's entry of the queue. */
  number: number
  kind: 'withdrawal' | 'exit'
  mint: Uint8Array
  destination: Uint8Array
  amount: Amount
  refund_inner: Uint8Array
  /** Exits only: nullifier of the note and of its request; one of the batch's nullifiers. */
  nullifier?: Uint8Array
}

/** One signed transaction of a batch, journaled before it is sent. */
export type SignedBatch = {
  batch_id: number
  signature: Uint8Array
  transaction: Uint8Array
  last_valid_block_height: number
}

export type BatchStage = {
  batch_id: number
  stage: 'submitted' | 'confirmed' | 'finalized'
  signature: Uint8Array
  slot: SlotNumber
}

/**
 * A payout that waits in the queue of the vault. `batch_id` is 0 for one queued before this journal began; `signature` is
 * the newest one recorded for it, in base58.
 */
export type OpenPayout = Pick<Payout, 'number' | 'mint' | 'destination' | 'amount'> & {
  batch_id: number
  signature: string | undefined
}

/** How a transaction with `pay` closed a payout. */
export type PayoutStage = {
  number: number
  /** `submitted`: sent and not landed, or no longer landed after a fork. */
  stage: 'submitted' | 'confirmed' | 'finalized'
  /** Undefined exactly for `submitted`. */
  outcome: 'paid' | 'refunded' | undefined
  /** Of the refund note; both exactly when refunded. */
  refund_commitment?: Uint8Array | undefined
  refund_leaf_index?: number | undefined
  signature: Uint8Array
  slot: SlotNumber
}

/** Shows a batch in the spent log (protocol/notes/merkle_tree.ts). */
export type SpentProof = {
  batch_id: number
  /** All of the batch, ascending. */
  nullifiers: Uint8Array[]
  /** 40, from the leaf upwards. */
  siblings: Uint8Array[]
  root: Uint8Array
}

// Hashing: field elements are 32 bytes big-endian

/** The worker that owns Poseidon, the mirrored note tree (finalized leaves) and the spent log. */
export interface HashPort {
  /** In order of batch_id; the newest one again gives the same result. A boot feeds leaves and batches that its files lack. */
  hashBatch(job: HashJob): Promise<HashResult>
  /** Appends finalized leaves at `first_index`; already known ones must be equal. */
  appendLeaves(first_index: number, leaves: Uint8Array[]): Promise<{ leaf_count: number; root: Uint8Array }>
  /** The note tree at the newest appended leaf. */
  root(): { leaf_count: number; root: Uint8Array }
  /** The spent log after the newest hashed batch, whose id is `batch_count`. */
  spent(): { batch_count: number; root: Uint8Array }
  /** Up to `limit` leaves from `from` on; fewer at the end of the tree. */
  leaves(from: number, limit: number): Promise<Uint8Array[]>
  inclusion(
    leaf_index: number,
  ): Promise<{ leaf: Uint8Array; siblings: Uint8Array[]; root: Uint8Array; leaf_count: number }>
  /** The path of a batch in the spent log as it was after `batch_count` batches; siblings from the leaf upwards. */
  spentPath(batch_id: number, batch_count: number): Promise<Pick<SpentProof, 'siblings' | 'root'>>
  /** Appends batches the journal already holds, in order; feeds a worker that starts behind the journal. */
  restoreSpent(batches: { batch_id: number; nullifiers: Uint8Array[] }[]): Promise<void>
  /** Forgets the batches behind that many. */
  truncateSpent(batch_count: number): Promise<void>
  close(): Promise<void>
}

export type HashJob = { batch_id: number; inputs: HashInput[]; outputs: HashOutput[]; refunds: HashRefund[] }

/**
 * An input note of a settlement batch. An exit request carries only its `nullifier`, which the program has verified: the
 * opening is known to the owner alone.
 */
type HashInput =
  | { commitment: Uint8Array; blinding: Uint8Array; nullifier?: undefined }
  | { nullifier: Uint8Array }

/** An output note: the inputs of its blinding, inner hash, commitment and memo (protocol.md "Notes"). */
export type HashOutput = {
  anchor: Uint8Array
  /** 16 bytes; zeros for withdrawals and reshapes. */
  order_id: Uint8Array
  nonce: bigint
  generation: number
  /** 2*j + role, j = fill index (or output index), role 0 = proceeds, 1 = change. */
  index_role: number
  owner: Uint8Array
  mint: Uint8Array
  amount: Amount
}

/** Input of the `inner` hash that a payout carries so that the program can build a refund note. */
export type HashRefund = Pick<HashOutput, 'anchor' | 'nonce' | 'generation' | 'index_role' | 'owner'>

/** All arrays aligned with the job's. */
export type HashResult = {
  nullifiers: Uint8Array[]
  outputs: { blinding: Uint8Array; commitment: Uint8Array; memo: Uint8Array }[]
  refund_inners: Uint8Array[]
  refund_blindings: Uint8Array[]
}

// Accounts: login, tokens and limits (engine/accounts)

export interface AccountsPort {
  login(request: TokenRequest): Promise<TokenResponse>
  /** Throws token_invalid, token_expired or token_revoked. */
  authenticate(token: string): Session
  /** Ends the token here at once; resolves once that is durable. @throws Refusal of Availability: it is recorded later */
  revoke(session: Session): Promise<void>
  /** Throws `token_invalid` for a token of another account or of another kind of credential. */
  refresh(session: Session, token: string): Session
  takeLimit(caller: Caller, cost: number): LimitState
  /** Charges the cost of a read of so many `READ_UNITS`, also below zero. */
  chargeRead(caller: Caller, units: number): LimitState
  /**
   * Calls `ended` once when the token ends: revoked, expired, or its credential replaced or revoked.
   * @returns a function that removes the listener
   */
  onEnded(token_id: string, ended: () => void): () => void
  /** A durable command: some issue tokens, or end those of a credential. */
  durable(command: CommandBody): void
  close(): void
}

/** The journaled accounts, as logins need them. */
export interface AccountBook {
  /** The limits in force; undefined for an unknown account. */
  limits(account_id: string): AccountLimits | undefined
  /** By credential id. */
  credential(credential_id: string): { account_id: string; credential: Credential } | undefined
  /** Journaled tokens that have not ended, in the order of their issue within an account. */
  tokens(): Iterable<JournaledToken & { account_id: string; credential: Credential }>
  /**
   * Journals that a token of this version of a credential is issued. Resolves once durable.
   * @throws Refusal `credentials_invalid` if it was replaced meanwhile, `credential_expired`, or a code of Availability
   */
  recordLogin(account_id: string, credential: Credential, token: JournaledToken): Promise<void>
  /** Journals that a token has ended. Resolves once durable. @throws Refusal of Availability */
  recordEnd(session: Pick<Session, 'account_id' | 'token_id' | 'access'>): Promise<void>
  /** The chain's clock. */
  unixMs(): number
}

/** Of the node that leads: the ones that follow it. */
export interface Fronts {
  /** Resolves once none of them answers reads of accounts without the records of this epoch up to `seq`. */
  applied(seq: JournalSeq, epoch: number): Promise<void>
}

/** Of a node that follows: the one that leads. */
export interface LeaderPort {
  /** Begins the names of this node's sockets. */
  readonly node: string
  /** Its newest answers; none once this node leads. */
  rights(): readonly Right[]
  /** Its current answer. @throws Refusal `lease_lost` */
  ask(): Promise<Right>
  /**
   * From when the leading node gives its term away until `arrived`, until this node leads, or for LINK_HANDOVER_MS: resolves
   * when the next one has answered, or with the end of that time. Undefined at any other time.
   */
  handing(): Promise<void> | undefined
  /** This node answers by the word of the next leading one, which has answered. */
  arrived(): void
  /**
   * Calls `answered` when its rights are newer. Each connection begins with `sockets`, those armed here that are open, and
   * `unarmed` has the ones among them that are not armed there.
   */
  watch(on: {
    answered: () => void
    sockets?: () => Iterable<string>
    unarmed?: (origins: readonly string[]) => void
  }): void
  /** Sends it to the leading node of `epoch`. @throws Refusal of that node, `lease_lost` if nothing was sent, `outcome_unknown` */
  pass(passed: Passed, epoch?: number): Promise<PassedAnswer>
}

/** Reasons of the process around the engine; none makes the venue not ready. */
export type Warning = 'collateral_ends'
