/** Encodes and decodes commands in the journal's layout. */
import { ACCOUNT_STATES, CREDENTIAL_KINDS } from '../../../protocol/bodies/account'
import {
  blob,
  bool,
  type Codec,
  codec,
  fixed,
  hex,
  json,
  list,
  option,
  struct,
  text,
  u64,
  uint,
  union,
  word,
} from '../../../protocol/codec'
import type * as commands from '../../commands'
import type { ExitRequest, PayoutStage } from '../../ports'
import { SIDES, TYPES } from '../state/order'

const b16 = fixed(16)
const b32 = fixed(32)
const b64 = fixed(64)
const NO_SIGNATURE = new Uint8Array(0)
const BLANK = new Uint8Array(64)
const skipped = codec<Uint8Array>(
  64,
  (to) => to.fixed(BLANK, 64),
  (from) => {
    from.skip(64)
    return NO_SIGNATURE
  },
)

export const HALT_REASONS = [
  'vault_frozen',
  'vault_paused',
  'forked',
  'rolled_back',
  'root_mismatch',
  'program_error',
] as const

const note = struct({
  mint: b32,
  amount: u64,
  blinding: b32,
  leaf_index: option(uint),
  commitment: b32,
  nullifier: b32,
  leaf: uint,
})
export const hash_result = struct({
  nullifiers: list(b32),
  outputs: list(struct({ blinding: b32, commitment: b32, memo: b16 })),
  refund_inners: list(b32),
  refund_blindings: list(b32),
})
export const signed_batch = struct({
  batch_id: uint,
  signature: b64,
  transaction: blob,
  last_valid_block_height: uint,
})
const batch_stage = struct({
  batch_id: uint,
  stage: word(['submitted', 'confirmed', 'finalized']),
  signature: b64,
  slot: uint,
})
export const PAYOUT_STAGES = ['submitted', 'confirmed', 'finalized'] as const
const payout_stage = struct({
  number: uint,
  stage: word(PAYOUT_STAGES),
  outcome: option(word(['paid', 'refunded'])),
  refund_commitment: option(b32),
  refund_leaf_index: option(uint),
  signature: b64,
  slot: uint,
}) as Codec<PayoutStage>
export const PAYOUT_TERMS = { number: uint, mint: b32, destination: b32, amount: u64 }
/** The terms of an exit request without its note and stage. */
export const EXIT_TERMS = {
  mint: b32,
  amount: u64,
  destination: b32,
  deadline_unix_s: uint,
  request_account: b32,
  refund_inner: b32,
}
export const exit_request = struct({
  nullifier: b32,
  commitment: b32,
  ...EXIT_TERMS,
  stage: word(['confirmed', 'finalized', 'vanished']),
  leaf_index: option(uint),
}) as Codec<ExitRequest>

const covered = struct({ leaves: uint, nullifiers: uint, retired: uint, finals: uint })

export const account_limits = struct({
  rate_capacity: uint,
  rate_refill_per_s: uint,
  orders_live_max: uint,
  keys_max: uint,
})
/** A credential without its id and kind. */
export const credential_terms = {
  version: uint,
  secret_hash: b32,
  passphrase_digest: b32,
  salt: b16,
  expiry_s: uint,
}

const stamp = { unix_ms: uint }
const who = { ...stamp, account_id: text }

function layoutsOfOrders(signature: Codec<Uint8Array>) {
  const place = {
    order_id: b16,
    trading_key: b32,
    symbol: text,
    side: word(SIDES),
    type: word(TYPES),
    amount: u64,
    price_limit: u64,
    min_fill: u64,
    expiry_slot: uint,
    nonce: u64,
    collateral_commitment: b32,
    anchors: list(b32),
    signature,
    opening: option(note),
    digest: b32,
  }
  const cancel = { order_id: b16, trading_key: b32, cancel_nonce: u64, signature }
  return {
    place: struct({ ...who, origin: option(text), ...place }),
    cancel: struct({ ...who, ...cancel }),
    modify: struct({ ...who, origin: option(text), cancel: struct(cancel), replacement: struct(place) }),
  }
}

/** By kind. The type byte of a kind is its position here, so kinds are only added at the end. */
const LAYOUTS = {
  configure: struct({ ...stamp, settings: json<commands.Settings>() }),
  account_record: struct({
    ...who,
    account_key: b32,
    version: uint,
    state: word(ACCOUNT_STATES),
    limits: account_limits,
    signature: b64,
  }),
  ...layoutsOfOrders(b64),
  cancel_all: struct({
    ...who,
    items: list(struct({ trading_key: b32, cancel_nonce: u64, signature: b64, symbol: option(text) })),
  }),
  dead_man: struct({ ...who, trading_key: b32, cancel_nonce: u64, timeout_slots: uint, signature: b64 }),
  withdraw: struct({
    ...who,
    withdrawal_id: b16,
    trading_key: b32,
    commitment: b32,
    destination: b32,
    amount: u64,
    nonce: u64,
    expiry_slot: uint,
    change_anchor: b32,
    signature: b64,
    opening: option(note),
  }),
  reshape: struct({
    ...who,
    reshape_id: b16,
    trading_key: b32,
    inputs: list(b32),
    amounts: list(u64),
    anchor: b32,
    nonce: u64,
    expiry_slot: uint,
    signature: b64,
    openings: list(option(note)),
  }),
  arm_disconnect: struct({ ...who, origin: text, armed: bool }),
  disconnected: struct({ ...who, origin: text }),
  slot: struct({ ...stamp, slot: uint, reopens_slot: uint }),
  leaves: struct({ ...stamp, first_index: uint, leaves: list(b32), slot: uint }),
  hashed: struct({ ...stamp, batch_id: uint, result: hash_result }),
  batch_signed: struct({ ...stamp, signed: signed_batch }),
  batch_stage: struct({ ...stamp, stage: batch_stage }),
  epoch_intended: struct({
    ...stamp,
    epoch: uint,
    boot_nonce: b16,
    generation: uint,
    settlement_key: b32,
    signature: b64,
    transaction: blob,
  }),
  epoch_opened: struct({ ...stamp, epoch: uint, slot: uint, signature: b64 }),
  reference: struct({ ...stamp, symbol: text, price: u64, publish_unix_ms: uint, source: text }),
  exit_requested: struct({ ...stamp, request: exit_request }),
  halted: struct({ ...stamp, reason: word(HALT_REASONS) }),
  resumed: struct(stamp),
  instrument_status: struct({ ...stamp, symbol: text, status: word(['active', 'paused', 'closed']) }),
  spent_restored: struct({
    ...stamp,
    batches: list(struct({ batch_id: uint, nullifiers: list(b32), signature: b64, slot: uint })),
  }),
  payout_stage: struct({ ...stamp, stage: payout_stage, refund_spent: bool }),
  queue_capacity: struct({ ...stamp, capacity: uint }),
  queue_restored: struct({ ...stamp, next_payout: uint, payouts: list(struct(PAYOUT_TERMS)) }),
  closed: struct({
    ...stamp,
    seq: uint,
    capacity: uint,
    due: list(struct({ symbol: text, batch: uint, reference_ticks: uint, seed: b32 })),
  }),
  decided: struct({
    ...stamp,
    seq: uint,
    outcome: word(['committed', 'void']),
    slot: uint,
    epoch: uint,
    commit_seq: uint,
  }),
  snapshot_taken: struct({ ...stamp, seq: uint, state_hash: b32, catalogue_hash: b32, covered }),
  released: struct(stamp),
  credential: struct({
    ...who,
    credential_id: b16,
    grants: word(CREDENTIAL_KINDS),
    ...credential_terms,
    signature: b64,
  }),
  login: struct({ ...who, credential_id: hex(16), version: uint }),
  rebind: struct({ ...who, trading_key: b32, cancel_nonce: u64, signature: b64 }),
  token_issued: struct({
    ...who,
    credential_id: hex(16),
    version: uint,
    token_id: hex(32),
    until_ms: uint,
  }),
  token_ended: struct({ ...who, token_id: hex(32) }),
  activate: struct({ ...stamp, version: uint }),
  node_absent: struct({ ...stamp, node: text, spent_ms: option(uint) }),
}
export const KINDS = Object.keys(LAYOUTS) as commands.CommandKind[]

const command: Codec<commands.Command> = union('kind', LAYOUTS)
/** The byte of the kind, `unix_ms`, the fields. */
export const { encode: encodeCommand, decode: decodeCommand } = command
/** Undefined for bytes that are no command. */
export const kindOf = (encoded: Uint8Array): commands.CommandKind | undefined => KINDS[encoded[0]!]

/**
 * For a replay, which verifies nothing again: signatures of orders and their cancels are not read, but empty. Written, they
 * are zeros, so that a state with deferred commands is the same after a replay.
 */
const replayed: Codec<commands.Command> = union('kind', { ...LAYOUTS, ...layoutsOfOrders(skipped) })
export const { encode: encodeDeferred, decode: decodeReplayed } = replayed
