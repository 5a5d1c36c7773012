/** Describes the JSON shapes of login, problems, public reads and frames of sockets: status, trees, settlement, identity. */
import { API_KEY_LENGTH_MAX, MINT_DECIMALS_MAX, NONCE_PATH_MAX, SECRET_LENGTH_MAX } from '../limits'
import { AccountEvent, Order } from './trading'
import {
  Address,
  Bytes,
  Count,
  exact,
  Hash,
  Integer,
  Milliseconds,
  nullable,
  oneOf,
  PublicKey,
  Seq,
  Signature,
  Slot,
  type Static,
  SymbolName,
  TransactionSignature,
  t,
  U64,
} from './values'

const text = (description: string) => t.String({ description })
export const Decimals = Integer(0, MINT_DECIMALS_MAX)

export const TokenRequest = exact({
  api_key: t.String({ minLength: 1, maxLength: API_KEY_LENGTH_MAX }),
  api_secret: t.String({ minLength: 1, maxLength: SECRET_LENGTH_MAX }),
  passphrase: t.String({ minLength: 1, maxLength: SECRET_LENGTH_MAX }),
})
export type TokenRequest = Static<typeof TokenRequest>
export const TokenResponse = exact({
  access_token: text('Opaque bearer token.'),
  token_type: t.Literal('Bearer'),
  expires_in: Count,
  account_id: text('Stable identifier of the account.'),
})
export type TokenResponse = Static<typeof TokenResponse>

/** RFC 9457 problem document; `code` is stable, `applied` speaks of the command: `unknown` for two codes only. */
export const Problem = exact({
  type: t.String(),
  title: t.String(),
  status: t.Integer(),
  detail: t.String(),
  code: t.String(),
  message: t.String(),
  request_id: t.String(),
  applied: oneOf(['no', 'yes', 'unknown']),
  field: t.Optional(t.String()),
  nonce_last: t.Optional(t.String()),
  retry_after_ms: t.Optional(t.Integer()),
  status_now: t.Optional(t.String()),
  subsystem: t.Optional(t.String()),
  reopens_slot: t.Optional(t.Integer()),
  result: t.Optional(t.Unknown()),
})
export type Problem = Static<typeof Problem> & Record<string, unknown>

export const Health = exact({ status: t.Literal('ok'), uptime_ms: Milliseconds })
const SettlementStatus = oneOf(['wired', 'degraded', 'unwired'])
const EnclaveKind = ['dstack', 'development'] as const
export const SystemStatus = exact({
  ready: t.Boolean(),
  matching: oneOf(['running', 'paused', 'stopped']),
  settlement: SettlementStatus,
  chain: exact({ slot: Slot, lag_ms: Milliseconds, genesis_hash: Address }),
  enclave: oneOf(EnclaveKind),
  draining: t.Boolean(),
  reasons: t.Array(t.String()),
  reopens_slot: t.Optional({ ...Slot, description: 'New orders are accepted again from this slot on.' }),
})
export type SystemStatus = Static<typeof SystemStatus>
export const ServerTime = exact({
  slot: Slot,
  unix_ms: Milliseconds,
  slot_ms: t.Number({ minimum: 0, description: 'Measured milliseconds per slot.' }),
})
export type ServerTime = Static<typeof ServerTime>

const instrumentFields = {
  symbol: SymbolName,
  base_mint: Address,
  quote_mint: Address,
  base_decimals: Decimals,
  quote_decimals: Decimals,
  lot_size: U64,
  tick_size: U64,
  min_amount: U64,
  max_amount: U64,
  batch_slots: Count,
  collar_bps: Count,
  fee_bps: Count,
  initial_reference: U64,
  reference_policy: oneOf(['last', 'oracle']),
  price_rule: oneOf(['std4', 'ref']),
  volume_tolerance_bps: Count,
}
/** The terms of an instrument, as the settings name them. */
export const InstrumentTerms = exact(instrumentFields)
export const Instrument = exact({ ...instrumentFields, status: oneOf(['active', 'paused', 'closed']) })
export type Instrument = Static<typeof Instrument>
const UnixSeconds = (description: string) => Integer(0, Number.MAX_SAFE_INTEGER, description)
const InstrumentReference = exact({
  price: U64,
  until_unix_s: UnixSeconds('End of the hour whose last reference this is, in unix seconds.'),
})
export const InstrumentView = exact({
  ...Instrument.properties,
  reference: nullable(InstrumentReference),
})
export type InstrumentView = Static<typeof InstrumentView>

const Figure = nullable(U64)
export const StatisticsRow = exact({
  start_unix_s: UnixSeconds('Start of the hour or UTC day, in unix seconds.'),
  open: Figure,
  high: Figure,
  low: Figure,
  close: Figure,
  volume: Figure,
  auctions: nullable(Count),
  previous: Hash,
  hash: Hash,
})
export type StatisticsRow = Static<typeof StatisticsRow>
export const STATISTICS_PERIODS = ['hour', 'day'] as const
export type StatisticsPeriod = (typeof STATISTICS_PERIODS)[number]
export const Statistics = exact({
  symbol: SymbolName,
  period: oneOf(STATISTICS_PERIODS),
  items: t.Array(StatisticsRow),
  next_after: nullable(UnixSeconds('Pass as `after` for the next page; null at the end.')),
  signed: nullable(
    exact({
      epoch: Count,
      statement_key: PublicKey,
      certificate: Signature,
      signature: Signature,
    }),
  ),
})
export type Statistics = Static<typeof Statistics>
export type InstrumentStatus = Instrument['status']
export type ReferencePolicy = Instrument['reference_policy']
export type PriceRule = Instrument['price_rule']

export const TreeRoot = exact({ root: Hash, leaf_count: Count, depth: Count, slot: Slot, batch_id: Count })
export type TreeRoot = Static<typeof TreeRoot>
export const TreeInclusion = exact({
  commitment: Hash,
  leaf_index: Count,
  siblings: t.Array(Hash, { minItems: 40, maxItems: 40 }),
  root: Hash,
  leaf_count: Count,
  usable: t.Boolean({
    description: 'Inside the finalized known state. Says nothing about whether the note is spent.',
  }),
})
export type TreeInclusion = Static<typeof TreeInclusion>
export const TreeLeaves = exact({ from: Count, leaves: t.Array(Hash), root: Hash, leaf_count: Count })
export type TreeLeaves = Static<typeof TreeLeaves>

export const SettlementHealth = exact({
  status: SettlementStatus,
  last_batch: Count,
  last_signature: nullable(TransactionSignature),
  last_slot: nullable(Slot),
})
export type SettlementHealth = Static<typeof SettlementHealth>

export const Info = exact({
  app_id: text('Id derived from the deployer and the compose configuration.'),
  instance_id: text('Identifier of this VM instance.'),
  compose_hash: Hash,
  tee_pubkey: PublicKey,
  tacit_version: text('Build version of the engine.'),
  venue: Hash,
  config_account: Address,
  program_id: Address,
  genesis_hash: Address,
  generation: Count,
  epoch: Integer(
    0,
    Number.MAX_SAFE_INTEGER,
    'The epoch that this node opened in the vault; 0 while it follows the leading node of a cluster.',
  ),
  exit_delay_s: Count,
})
export type Info = Static<typeof Info>
export const Attestation = exact({
  quote: Bytes,
  event_log: text("The guest agent's boot event log, unchanged."),
  report_data: Bytes,
  nonce_path: t.Optional(
    t.Array(Hash, {
      maxItems: NONCE_PATH_MAX,
      description: 'From `nonce` to the first half of `report_data`; present where `nonce` was sent.',
    }),
  ),
  vm_config: text("The guest agent's hardware configuration, unchanged."),
  tee_pubkey: PublicKey,
  enclave: oneOf(EnclaveKind, {
    description:
      '`development`: a simulated enclave; a verifier rejects it unless its policy names the root.',
  }),
  binding: exact({
    body: Bytes,
    signature: Signature,
    certificate: Bytes,
    certificate_signature: Signature,
    statement_key: PublicKey,
  }),
})
export type Attestation = Static<typeof Attestation>
export const Leader = exact({
  info: { ...Info, description: 'What `GET /info` of the node that leads answers.' },
  attestation: { ...Attestation, description: 'What `GET /attestation` of the node that leads answers.' },
})
export type Leader = Static<typeof Leader>
const RemainingDays = nullable(
  Integer(
    0,
    Number.MAX_SAFE_INTEGER,
    'Days until the tree is full at the rate of the last day; null while the rate is unknown.',
  ),
)
export const Transparency = exact({
  /** Of all that is from the chain. */
  reading: exact({
    slot: Slot,
    age_ms: Integer(0, Number.MAX_SAFE_INTEGER, 'Since the chain was asked; an answer serves two seconds.'),
    stale: t.Boolean({
      description: 'It could not be read since, or is over 150 slots behind: all of it may have changed.',
    }),
  }),
  mints: t.Array(
    exact({
      mint: Address,
      decimals: Decimals,
      vault: Address,
      vault_balance: U64,
      outstanding: U64,
      freezable: t.Boolean(),
      min_deposit: U64,
      min_withdraw: U64,
      min_exit: U64,
      withdraw_fee: U64,
      slot: Slot,
      stale: t.Boolean({ description: 'The figures could not be refreshed; they are unknown, not zero.' }),
    }),
  ),
  tree: exact({
    root: Hash,
    leaf_count: Count,
    remaining_days: RemainingDays,
    spent_root: Hash,
    spent_count: Count,
    spent_log_root: Hash,
    spent_log_count: Count,
  }),
  spent_log_remaining_days: RemainingDays,
  payout_queue: exact({ length: Count, oldest_slot: nullable(Slot) }),
  exits: t.Array(exact({ nullifier: Hash, deadline: Integer(0, Number.MAX_SAFE_INTEGER, 'Unix seconds.') }), {
    description: 'Requests that no batch has served, the nearest deadline first; at most 500.',
  }),
  settlement: exact({
    signer: PublicKey,
    epoch: Count,
    generation: Count,
    last_batch: Count,
    last_signature: nullable(TransactionSignature),
    finality: t.Array(exact({ batch: Count, slot: Slot, ms: Count }), {
      description: 'The last 64 final settlement batches, oldest first.',
    }),
  }),
  admin: exact({
    pending: t.Array(exact({ action: t.String(), effective_unix_s: Count, value: t.String() })),
  }),
  announced: t.Array(
    exact({
      list: t.String(),
      id: text('Hex; empty for a list of one value.'),
      value: text('Hex; empty for the member of a list.'),
    }),
    {
      description:
        'What the vault admits epochs on now: builds, images, machines, least versions, root, keys. Later changes are in `admin.pending`.',
    },
  ),
  outages: t.Array(
    exact({
      outage_at_s: Integer(0, Number.MAX_SAFE_INTEGER, 'Unix seconds at which it was declared.'),
      outage_extra_s: Integer(
        0,
        Number.MAX_SAFE_INTEGER,
        'Seconds by which it moved the deadlines then open.',
      ),
    }),
    { description: 'The last outage that the admin declared; empty before the first.' },
  ),
  auditor_key: nullable(
    text('age recipient to whom alone a batch can be exported; null without an auditor.'),
  ),
  builds: t.Array(exact({ compose_hash: Hash, tacit_version: t.String(), from_slot: Slot })),
  epochs: t.Array(exact({ epoch: Count, from_slot: Slot }), {
    description: 'The last 64 openings, oldest first.',
  }),
  /** Closes, each of all due instruments together, and their outcomes. */
  batches: exact({ closed: Count, matched: Count, void: Count, since_slot: Slot }),
  statistics: exact({
    days: t.Array(
      exact({
        day: t.String({ pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' }),
        symbol: SymbolName,
        fills: nullable(Count),
        volume: nullable(U64),
      }),
    ),
  }),
})
export type Transparency = Static<typeof Transparency>

const frame = <const Name extends string>(type: Name) => ({ type: t.Literal(type) })

export const HelloFrame = exact({
  ...frame('hello'),
  stream: t.String(),
  account_id: t.String(),
  seq_first: Seq,
  seq_last: Seq,
  heartbeat_ms: Milliseconds,
  slot: Slot,
  unix_ms: Milliseconds,
})
export const StatusFrame = exact({
  ...frame('status'),
  ready: t.Boolean(),
  reasons: t.Array(t.String()),
  reopens_slot: t.Optional(Slot),
})
export const SnapshotFrame = exact({ ...frame('snapshot'), seq: Seq, orders: t.Array(Order) })
export const GapFrame = exact({ ...frame('gap'), seq_from: Seq, seq_to: Seq })
export const HeartbeatFrame = exact({ ...frame('heartbeat'), seq: Seq, slot: Slot, unix_ms: Milliseconds })
export const WarningFrame = exact({
  ...frame('warning'),
  reason: oneOf(['token_expiring', 'leader_changed']),
  expires_in_ms: Milliseconds,
})
export const ByeFrame = exact({
  ...frame('bye'),
  reason: oneOf(['upgrade', 'restart']),
  retry_after_ms: Milliseconds,
})
export const EventFrame = exact({ ...frame('event'), ...AccountEvent.properties })

export const ReplyFrame = exact({ ...frame('reply'), id: t.String(), result: t.Unknown() })
/** The members of a problem document follow. */
export const ErrorFrame = t.Object({ ...frame('error'), id: t.Optional(t.String()), code: t.String() })
