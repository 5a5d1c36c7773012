/** Encodes and decodes commands in the journal's layout. */
import type * as commands from '../../commands'
import { ByteReader, ByteWriter, CodecError } from '../../memory/byte_stream'
import type { BatchStage, ExitRequest, HashResult, SettledBatch, SignedBatch } from '../../ports'
import { SIDES, TYPES } from '../state/order_row'
import {
  blob,
  bool,
  type Codec,
  fixed,
  json,
  list,
  option,
  struct,
  text,
  u64,
  uint,
  word,
  wordOf,
} from './codec'

type Body<T extends { kind: string }> = Omit<T, 'kind'>

const b16 = fixed(16)
const b32 = fixed(32)
const b64 = fixed(64)
export const HALT_REASONS = [
  'vault_frozen',
  'vault_paused',
  'forked',
  'rolled_back',
  'root_mismatch',
  'program_error',
] as const

const note = struct<commands.NoteFact>({
  mint: b32,
  amount: u64,
  blinding: b32,
  leaf_index: option(uint),
  commitment: b32,
  nullifier: b32,
})
const PLACE_FIELDS = {
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
  signature: b64,
  opening: option(note),
  digest: b32,
}
const CANCEL_FIELDS = { order_id: b16, trading_key: b32, cancel_nonce: u64, signature: b64 }
const who = { account_id: text }

const place: Codec<Body<commands.Place>> = {
  ...struct<Body<commands.Place>>({ ...who, origin: option(text), ...PLACE_FIELDS }),
  read: readPlace,
}
const cancel: Codec<Body<commands.Cancel>> = {
  ...struct<Body<commands.Cancel>>({ ...who, ...CANCEL_FIELDS }),
  read: readCancel,
}
const modify = struct<Body<commands.Modify>>({
  ...who,
  origin: option(text),
  cancel: struct<commands.CancelFields>(CANCEL_FIELDS),
  replacement: struct<commands.PlaceFields>(PLACE_FIELDS),
})
const cancel_all = struct<Body<commands.CancelAll>>({
  ...who,
  items: list(
    struct<commands.CancelAllFields>({
      trading_key: b32,
      cancel_nonce: u64,
      signature: b64,
      symbol: option(text),
    }),
  ),
})
const dead_man = struct<Body<commands.DeadMan>>({
  ...who,
  trading_key: b32,
  cancel_nonce: u64,
  timeout_slots: uint,
  signature: b64,
})
const withdraw = struct<Body<commands.Withdraw>>({
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
})
const reshape = struct<Body<commands.Reshape>>({
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
})
const account_record = struct<Body<commands.AccountRecord>>({
  ...who,
  version: uint,
  status: word(['active', 'suspended']),
  orders_live_max: uint,
  keys_max: uint,
  record: blob,
})
export const hash_result = struct<HashResult>({
  nullifiers: list(b32),
  outputs: list(struct({ blinding: b32, commitment: b32, memo: b16 })),
  refund_inners: list(b32),
  refund_blindings: list(b32),
  spent_root: b32,
  spent_count: uint,
})
export const signed_batch = struct<SignedBatch>({
  batch_id: uint,
  signature: b64,
  transaction: blob,
  last_valid_block_height: uint,
})
const outcome = struct<{
  outcome: 'paid' | 'refunded'
  refund_commitment: Uint8Array | undefined
  refund_leaf_index: number | undefined
}>({
  outcome: word(['paid', 'refunded']),
  refund_commitment: option(b32),
  refund_leaf_index: option(uint),
})
const batch_stage = struct<BatchStage>({
  batch_id: uint,
  stage: word(['submitted', 'confirmed', 'finalized']),
  signature: b64,
  slot: uint,
  payouts: list(outcome) as Codec<BatchStage['payouts']>,
})
/** The terms of an exit request without its note and stage. */
export const EXIT_TERMS = {
  mint: b32,
  amount: u64,
  destination: b32,
  deadline_unix_s: uint,
  request_account: b32,
  refund_inner: b32,
}
const exit_request = struct<ExitRequest>({
  nullifier: b32,
  commitment: b32,
  ...EXIT_TERMS,
  stage: word(['confirmed', 'finalized', 'vanished']),
})
const epoch_intended = struct<Body<commands.EpochIntended>>({
  epoch: uint,
  boot_nonce: b16,
  generation: uint,
  signature: b64,
  transaction: blob,
})

/** Bodies by kind, without `unix_ms`. The type byte of a kind is its position here, so kinds are only added at the end. */
const CODECS: { [K in commands.CommandKind]: Codec<Body<Extract<commands.CommandBody, { kind: K }>>> } = {
  configure: struct<Body<commands.Configure>>({ settings: json<commands.Settings>() }),
  account_record,
  place,
  cancel,
  modify,
  cancel_all,
  dead_man,
  withdraw,
  reshape,
  arm_disconnect: struct<Body<commands.ArmDisconnect>>({ ...who, origin: text, armed: bool }),
  disconnected: struct<Body<commands.Disconnected>>({ ...who, origin: text }),
  slot: struct<Body<commands.Slot>>({ slot: uint }),
  leaves: struct<Body<commands.Leaves>>({ first_index: uint, leaves: list(b32), slot: uint }),
  hashed: struct<Body<commands.Hashed>>({ batch_id: uint, result: hash_result }),
  batch_signed: struct<Body<commands.BatchSigned>>({ signed: signed_batch }),
  batch_stage: struct<Body<commands.BatchStaged>>({ stage: batch_stage }),
  epoch_intended,
  epoch_opened: struct<Body<commands.EpochOpened>>({ epoch: uint, slot: uint, signature: b64 }),
  reference: struct<Body<commands.Reference>>({
    symbol: text,
    price: u64,
    publish_unix_ms: uint,
    source: text,
  }),
  exit_requested: struct<Body<commands.ExitRequested>>({ request: exit_request }),
  halted: struct<Body<commands.Halted>>({ reason: word(HALT_REASONS) }),
  resumed: struct<Body<commands.Resumed>>({}),
  instrument_status: struct<Body<commands.InstrumentStatusSet>>({
    symbol: text,
    status: word(['active', 'paused', 'closed']),
  }),
  spent_restored: struct<Body<commands.SpentRestored>>({
    batches: list(
      struct<SettledBatch>({ batch_id: uint, nullifiers: list(b32), signature: b64, slot: uint }),
    ),
  }),
}
export const KINDS = Object.keys(CODECS) as commands.CommandKind[]
const KIND_BYTES = new Map(KINDS.map((kind, at) => [kind, at]))

function codecOf(kind: commands.CommandKind): { type: number; codec: Codec<object> } {
  return { type: KIND_BYTES.get(kind)!, codec: CODECS[kind] as Codec<object> }
}

/** Reused by all commands: the result is copied out. */
const writer = new ByteWriter()

/** Type byte, `unix_ms` in 8 bytes, then the body. */
export function encodeCommand(command: commands.Command): Uint8Array {
  const { type, codec } = codecOf(command.kind)
  writer.begin()
  writer.byte(type)
  writer.uint(command.unix_ms)
  codec.write(writer, command)
  return writer.done()
}

/**
 * With signatures `skipped` those of places and cancels are empty: the commands of the journal were verified before.
 * @throws CodecError unless the bytes are exactly one encoded command
 */
export function decodeCommand(bytes: Uint8Array, signatures: 'read' | 'skipped' = 'read'): commands.Command {
  const from = new ByteReader(bytes, signatures === 'read')
  const kind = KINDS[from.byte()]
  if (kind === undefined) throw new CodecError('the type of a command is not known')
  const unix_ms = from.uint()
  const command = codecOf(kind).codec.read(from) as { kind: string; unix_ms: number }
  from.done()
  command.kind = kind
  command.unix_ms = unix_ms
  return command as commands.Command
}

/**
 * Reads a place, field by field in the order of its struct above. Most records of a journal are places and cancels, and an
 * object literal gives all objects one shape, which a loop over a description does not.
 */
function readPlace(from: ByteReader): Body<commands.Place> {
  return {
    account_id: from.text(),
    origin: from.byte() === 1 ? from.text() : undefined,
    order_id: from.fixed(16),
    trading_key: from.fixed(32),
    symbol: from.text(),
    side: wordOf(SIDES, from.byte()),
    type: wordOf(TYPES, from.byte()),
    amount: from.u64(),
    price_limit: from.u64(),
    min_fill: from.u64(),
    expiry_slot: from.uint(),
    nonce: from.u64(),
    collateral_commitment: from.fixed(32),
    anchors: readAnchors(from),
    signature: from.signature(),
    opening: from.byte() === 1 ? readNote(from) : undefined,
    digest: from.fixed(32),
  }
}

function readCancel(from: ByteReader): Body<commands.Cancel> {
  return {
    account_id: from.text(),
    order_id: from.fixed(16),
    trading_key: from.fixed(32),
    cancel_nonce: from.u64(),
    signature: from.signature(),
  }
}

function readAnchors(from: ByteReader): Uint8Array[] {
  const count = from.uint()
  const anchors: Uint8Array[] = []
  for (let at = 0; at < count; at++) anchors.push(from.fixed(32))
  return anchors
}

function readNote(from: ByteReader): commands.NoteFact {
  return {
    mint: from.fixed(32),
    amount: from.u64(),
    blinding: from.fixed(32),
    leaf_index: from.byte() === 1 ? from.uint() : undefined,
    commitment: from.fixed(32),
    nullifier: from.fixed(32),
  }
}
