/** Declares the commands that change the venue, as decoded from the journal; form and signatures are already verified. */
import type { JournalSeq, SlotNumber, Ticks } from '../protocol/units'
import type * as wire from '../protocol/wire/trading'
import type { Parsed } from '../protocol/wire/values'
import type { EngineConfig } from './config'
import type {
  BatchStage,
  ExitRequest,
  HashResult,
  OpenPayout,
  PayoutStage,
  SettledBatch,
  SignedBatch,
} from './ports'

/** The part of the operator's configuration that decisions depend on. Journaled, so replay does not read the current one. */
export type Settings = Pick<
  EngineConfig,
  | 'instruments'
  | 'mints'
  | 'fee_key'
  | 'fee_anchor'
  | 'order_life_slots_max'
  | 'settlement_parts_max'
  | 'retention_days'
  | 'reference_sources'
> & {
  /** Raised by a restore; part of the venue id and of every blinding. */
  generation: number
  /** The build that journaled these settings; no decision depends on it. */
  build?: { compose_hash: string; tacit_version: string }
}

/**
 * An opened note: the request's opening with the commitment and nullifier derived from it and the signing key
 * (protocol/notes/notes.ts) before the command is journaled.
 */
export type NoteFact = Parsed<typeof wire.NoteOpening> & {
  commitment: Uint8Array
  nullifier: Uint8Array
  /** Index of the finalized leaf, looked up at intake; the opening cites it only in deposit form. */
  leaf: number
}

/** A place body (protocol.md "Place"), its signature and the values it covers by hash. Amounts and prices in wire units. */
export type PlaceFields = Omit<
  Parsed<typeof wire.PlaceRequest>,
  'min_fill' | 'continuation_anchors' | 'opening'
> & {
  min_fill: bigint
  /** 1 to 16, in the order their pool hash covers. */
  anchors: Uint8Array[]
  opening: NoteFact | undefined
  /** SHA-256 of the canonical place body; of a modify: of the cancel body followed by the place body. */
  digest: Uint8Array
}
export type CancelFields = Parsed<typeof wire.CancelParams>
export type CancelAllFields = Parsed<typeof wire.CancelAllRequest>

/** Signed by the operator: admits an account key, changes limits and state. */
export type AccountRecord = { kind: 'account_record'; account_id: string } & Parsed<
  typeof wire.AdmissionRequest
>
export type Place = { kind: 'place'; account_id: string; origin: string | undefined } & PlaceFields
export type Cancel = { kind: 'cancel'; account_id: string } & CancelFields
/** `cancel.order_id` is the old order; both bodies carry the same trading key. Both take effect or neither. */
export type Modify = {
  kind: 'modify'
  account_id: string
  origin: string | undefined
  cancel: CancelFields
  replacement: PlaceFields
}
/** All items take effect or none. */
export type CancelAll = { kind: 'cancel_all'; account_id: string; items: CancelAllFields[] }
/** `timeout_slots` 0 disarms. */
export type DeadMan = { kind: 'dead_man'; account_id: string } & Parsed<typeof wire.DeadManRequest>
export type Withdraw = {
  kind: 'withdraw'
  account_id: string
  /** First 16 bytes of SHA-256 of the canonical body. */
  withdrawal_id: Uint8Array
  opening: NoteFact | undefined
} & Omit<Parsed<typeof wire.WithdrawalRequest>, 'opening'>
export type Reshape = {
  kind: 'reshape'
  account_id: string
  /** First 16 bytes of SHA-256 of the canonical body. */
  reshape_id: Uint8Array
  /** Aligned with `inputs`. */
  openings: (NoteFact | undefined)[]
} & Omit<Parsed<typeof wire.ReshapeRequest>, 'openings'>

/** A credential in force. `credential_id` is its key in hex. */
export type Credential = Pick<
  Parsed<typeof wire.CredentialRequest>,
  'version' | 'secret_hash' | 'passphrase_digest' | 'salt' | 'expiry_s'
> & { credential_id: string; kind: Exclude<wire.CredentialRequest['kind'], 'revoke'> }
/** Signed with the account key: sets or revokes a credential. */
export type CredentialSet = { kind: 'credential'; account_id: string } & Omit<
  Parsed<typeof wire.CredentialRequest>,
  'kind' | 'account_key'
> & { grants: wire.CredentialRequest['kind'] }
/** In journals of before tokens were journaled: one is about to be issued for this version of a credential. */
type Login = { kind: 'login'; account_id: string; credential_id: string; version: number }
/** A token, known by its hash, is issued for this version of a credential, until a moment of the chain's clock. */
type TokenIssued = Omit<Login, 'kind'> & { kind: 'token_issued' } & JournaledToken
export type JournaledToken = { token_id: string; until_ms: number }
type TokenEnded = { kind: 'token_ended'; account_id: string; token_id: string }
/** Signed with the trading key: moves it to the account and cancels its orders. */
export type Rebind = { kind: 'rebind'; account_id: string } & Parsed<typeof wire.RebindRequest>

type ArmDisconnect = { kind: 'arm_disconnect'; account_id: string; origin: string; armed: boolean }
type Disconnected = { kind: 'disconnected'; account_id: string; origin: string }
/**
 * Of the node that begins the names of sockets: it is absent, and so much of its grace period is over, after which they count as
 * closed; undefined once it is back.
 */
type NodeAbsent = { kind: 'node_absent'; node: string; spent_ms: number | undefined }

/**
 * A newer confirmed slot of the chain: expiry, timers and packing happen here. `reopens_slot` is 0, or after a stall of the
 * chain the slot from which orders are accepted again.
 */
type Slot = { kind: 'slot'; slot: SlotNumber; reopens_slot: SlotNumber }
/** Closes a batch; the last record of its group. The commit is its `seq` and the head after it. */
type Closed = {
  kind: 'closed'
  seq: JournalSeq
  /** Parts of the settlement batches of the match. */
  capacity: number
  due: { symbol: string; batch: number; reference_ticks: Ticks; seed: Uint8Array }[]
}
/**
 * The chain's verdict on the batch closed by record `seq`, with a quorum's evidence: the commit stored at `slot`, in `epoch`.
 */
type Decided = {
  kind: 'decided'
  seq: JournalSeq
  outcome: 'committed' | 'void'
  slot: SlotNumber
  epoch: number
  commit_seq: JournalSeq
}
/** Finalized leaves of the note tree in leaf order, verified against a known state of the chain. */
type Leaves = { kind: 'leaves'; first_index: number; leaves: Uint8Array[]; slot: SlotNumber }
/** The hashing worker's result for the oldest unhashed settlement batch. */
type Hashed = { kind: 'hashed'; batch_id: number; result: HashResult }
/** Journaled before the signed bytes are sent. */
type BatchSigned = { kind: 'batch_signed'; signed: SignedBatch }
type BatchStaged = { kind: 'batch_stage'; stage: BatchStage }
/** `refund_spent`: the note of a refund was spent so long ago that only the stores know its nullifier. */
type PayoutStaged = { kind: 'payout_stage'; stage: PayoutStage; refund_spent: boolean }
/** Places of the vault's payout queue. */
type QueueCapacity = { kind: 'queue_capacity'; capacity: number }
/** The boot record: journaled as a group by itself before the opening is sent, and nothing after it until that is final. */
type EpochIntended = {
  kind: 'epoch_intended'
  epoch: number
  boot_nonce: Uint8Array
  generation: number
  /** Made by the enclave for this boot; certifies the statement key of the epoch. */
  settlement_key: Uint8Array
  signature: Uint8Array
  transaction: Uint8Array
}
/** The opening is finalized: this instance serves from now on. */
type EpochOpened = { kind: 'epoch_opened'; epoch: number; slot: SlotNumber; signature: Uint8Array }
/** An oracle price in quote units per whole base token. */
export type Reference = { kind: 'reference' } & Omit<Parsed<typeof wire.ReferencePrice>, 'signature'>
type ExitRequested = { kind: 'exit_requested'; request: ExitRequest }
export type HaltReason =
  | 'vault_frozen'
  | 'vault_paused'
  | 'forked'
  | 'rolled_back'
  | 'root_mismatch'
  | 'program_error'
type Halted = { kind: 'halted'; reason: HaltReason }
type Resumed = { kind: 'resumed' }
/** Opens, pauses or closes an instrument; closing cancels its orders and is final. */
type InstrumentStatusSet = {
  kind: 'instrument_status'
  symbol: string
  status: 'active' | 'paused' | 'closed'
}
/** Batches that settled before this journal began; nullifiers ascending within each batch. */
type SpentRestored = { kind: 'spent_restored'; batches: SettledBatch[] }
/** The payout queue as the batches before this journal left it. */
type QueueRestored = {
  kind: 'queue_restored'
  next_payout: number
  payouts: Omit<OpenPayout, 'batch_id' | 'signature'>[]
}
/** The rows that grow with every order: the number of the first one of each kind that is not in the stores. */
export type Covered = Readonly<Record<'leaves' | 'nullifiers' | 'retired' | 'finals', number>>
/**
 * The snapshot of the state after record `seq` and the stores of its catalogue are on disk; they count from here on, and the
 * rows that the stores cover leave the state. The hashes are SHA-256 of the state and of the catalogue.
 */
type SnapshotTaken = {
  kind: 'snapshot_taken'
  seq: JournalSeq
  state_hash: Uint8Array
  catalogue_hash: Uint8Array
  covered: Covered
}
/** The last command of a drained instance: it acknowledges nothing more, so its successor need not wait out its lease. */
type Released = { kind: 'released' }
/** From the next command on the state is of this version: a build that does not carry it stops here. */
type Activate = { kind: 'activate'; version: number }
/** The first command after a journal's first boot record, repeated when a boot finds settings that differ from the state's. */
type Configure = { kind: 'configure'; settings: Settings }

export type CommandBody =
  | AccountRecord
  | Place
  | Cancel
  | Modify
  | CancelAll
  | DeadMan
  | Withdraw
  | Reshape
  | ArmDisconnect
  | Disconnected
  | NodeAbsent
  | Slot
  | Closed
  | Decided
  | Leaves
  | Hashed
  | BatchSigned
  | BatchStaged
  | PayoutStaged
  | QueueCapacity
  | EpochIntended
  | EpochOpened
  | Reference
  | ExitRequested
  | Halted
  | Resumed
  | InstrumentStatusSet
  | Configure
  | SpentRestored
  | QueueRestored
  | SnapshotTaken
  | Released
  | CredentialSet
  | Login
  | TokenIssued
  | TokenEnded
  | Rebind
  | Activate

/** A command with the chain time it was sequenced at. */
export type Command = CommandBody & { unix_ms: number }
export type CommandKind = Command['kind']
export type CommandOf<K extends CommandKind> = Extract<Command, { kind: K }>
