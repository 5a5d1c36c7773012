/**
 * Verifies requests of traders, the operator and price sources and turns them into commands; checks orders without placing
 * them.
 */
import { decodeBase58 } from '../../protocol/base58'
import { ADMISSION_BODY, accountIdOf, CREDENTIAL_BODY, REBIND_BODY } from '../../protocol/bodies/account'
import { encodeReferencePrice } from '../../protocol/bodies/signed_calls'
import {
  anchorPoolHash,
  bodyId,
  CANCEL_ALL_BODY,
  CANCEL_BODY,
  DEAD_MAN_BODY,
  PLACE_BODY,
  RESHAPE_BODY,
  WITHDRAW_BODY,
} from '../../protocol/bodies/trading'
import { equalBytes, fromHex, isZero } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { DEAD_MAN_SLOTS_MAX } from '../../protocol/limits'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { sha256 } from '../../protocol/sha256'
import type {
  AdmissionRequest,
  CheckRequest,
  CredentialRequest,
  DeadManRequest,
  ModifyParams,
  PlaceRequest,
  RebindRequest,
  ReferencePrice,
  ReshapeRequest,
  WithdrawalRequest,
} from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type {
  AccountRecord,
  Cancel,
  CancelAll,
  CancelAllFields,
  CancelFields,
  CredentialSet,
  DeadMan,
  Modify,
  NoteFact,
  Place,
  Rebind,
  Reference,
  Reshape,
  Withdraw,
} from '../commands'
import type { ReferenceSources } from '../config'
import { LIMITS } from '../limits'
import { checkExpiry } from '../machine/rules/checks'
import { type InstrumentState, instrumentOf, nextClose, referenceTicks } from '../machine/state/instrument'
import type { State } from '../machine/state/state'
import {
  checkInstrumentRules,
  claimOf,
  type Intake,
  openNote,
  rulesFor,
  type Signed,
  signedBy,
} from './context'

/** Refuses `operator_signature_invalid`. */
export function intakeAdmission(
  venue: Uint8Array,
  operator_key: Uint8Array,
  request: Parsed<typeof AdmissionRequest>,
): AccountRecord {
  if (!verifySignature(request.signature, ADMISSION_BODY.encode({ ...request, venue }), operator_key))
    throw new Refusal('operator_signature_invalid')
  return { ...request, kind: 'account_record', account_id: accountIdOf(request.account_key) }
}

/**
 * Refuses `field_invalid` of a revocation that carries more than its id, and `signature_invalid` unless the account key
 * signed the body.
 */
export function intakeCredential(
  venue: Uint8Array,
  request: Parsed<typeof CredentialRequest>,
): CredentialSet {
  const { account_key, kind: grants, ...terms } = request
  const account_id = accountIdOf(account_key)
  const { expiry_s, passphrase_digest, salt, secret_hash } = terms
  const bare = expiry_s === 0 && [passphrase_digest, salt, secret_hash].every(isZero)
  if (grants === 'revoke' && !bare) throw new Refusal('field_invalid', { field: 'kind' })
  const body = CREDENTIAL_BODY.encode({ ...terms, kind: grants, venue, account_id: fromHex(account_id, 32)! })
  if (!verifySignature(terms.signature, body, account_key)) throw new Refusal('signature_invalid')
  return { ...terms, kind: 'credential', grants, account_id }
}

/** Refuses `signature_invalid` unless the trading key signed its move to this account. */
export function intakeRebind(
  venue: Uint8Array,
  account_id: string,
  request: Parsed<typeof RebindRequest>,
): Rebind {
  const body = REBIND_BODY.encode({ ...request, venue, account_id: fromHex(account_id, 32)! })
  if (!verifySignature(request.signature, body, request.trading_key)) throw new Refusal('signature_invalid')
  return { ...request, kind: 'rebind', account_id }
}

type ReferenceIntake = {
  venue: Uint8Array
  sources: readonly ReferenceSources[]
  instruments: ReadonlyMap<string, InstrumentState>
}

/**
 * Refuses `instrument_unknown`, `field_invalid` of a symbol without oracle or a price off tick, `reference_source_invalid`
 * (unknown source, or a signature over another venue or content) and `reference_stale` (too old, ahead of the clock, or not
 * newer than the known price).
 */
export function intakeReference(
  intake: ReferenceIntake,
  now_ms: number,
  { signature, ...signed }: Parsed<typeof ReferencePrice>,
): Reference {
  const { symbol, price, publish_unix_ms, source } = signed
  const instrument = intake.instruments.get(symbol)
  if (instrument === undefined) throw new Refusal('instrument_unknown')
  if (instrument.terms.reference_policy !== 'oracle') throw new Refusal('field_invalid', { field: 'symbol' })
  const rule = intake.sources.find((one) => one.symbol === symbol)
  const key = decodeBase58(rule?.sources.find((one) => one.source === source)?.key ?? '', 32)
  if (rule === undefined || key === undefined) throw new Refusal('reference_source_invalid')
  const { venue } = intake
  const body = encodeReferencePrice({ ...signed, venue, publish_unix_ms: BigInt(publish_unix_ms) })
  if (!verifySignature(signature, body, key)) throw new Refusal('reference_source_invalid')
  if (referenceTicks(instrument.terms, price) === undefined) {
    throw new Refusal('field_invalid', { field: 'price' })
  }

  const age_ms = now_ms - publish_unix_ms
  // A price from the future would make every honest price stale until then.
  const timely = age_ms <= rule.max_age_ms && age_ms >= -LIMITS.oracle_ahead_max_ms
  if (!timely || publish_unix_ms <= instrument.reference_unix_ms) throw new Refusal('reference_stale')
  return { kind: 'reference', ...signed }
}

/** Refuses with the first failing check that precedes the signature in protocol.md "Order of checks". */
export function intakePlace(
  intake: Intake,
  account_id: string,
  request: Parsed<typeof PlaceRequest>,
  origin: string | undefined,
): Signed<Place> {
  const { order, claim } = orderOf(intake, request)
  return signedBy([claim], () => ({
    ...order,
    kind: 'place',
    account_id,
    origin,
    opening: openedBy(intake, request),
    digest: sha256(claim.message),
  }))
}

/** A cancel of the old order and a new order by the same key. Refuses a reused order id and violated instrument rules. */
export function intakeModify(
  intake: Intake,
  account_id: string,
  { order_id, cancel_nonce, cancel_signature, replacement }: Parsed<typeof ModifyParams>,
  origin: string | undefined,
): Signed<Modify> {
  if (equalBytes(order_id, replacement.order_id)) {
    throw new Refusal('field_invalid', { field: 'replacement.order_id' })
  }
  const { order, claim } = orderOf(intake, replacement, 'replacement.')
  const { trading_key } = replacement
  const cancel = { order_id, trading_key, cancel_nonce, signature: cancel_signature }
  const body = CANCEL_BODY.encode({ ...cancel, venue: intake.venue })
  return signedBy([claimOf(cancel, body), claim], () => ({
    kind: 'modify',
    account_id,
    origin,
    cancel,
    replacement: {
      ...order,
      opening: openedBy(intake, replacement),
      digest: sha256(body, claim.message),
    },
  }))
}

/**
 * POST /orders/check: throws the refusal that a place would get from its instrument, rules, expiry, instrument status or the
 * venue's availability (`unavailable`), in the order of checks. Reveals nothing about keys, notes, nonces or other orders.
 */
export function checkOrder(
  intake: Intake,
  state: State,
  unavailable: RefusalCode | undefined,
  request: Parsed<typeof CheckRequest>,
): void {
  checkInstrumentRules(request, rulesFor(intake, request.symbol))
  const instrument = instrumentOf(state, request.symbol)
  const refused = checkExpiry(state, request.expiry_slot, nextClose(state, state.slot))
  if (refused !== undefined) throw new Refusal(refused.code, refused.facts)
  if (instrument.status !== 'active') throw new Refusal('instrument_paused')
  if (unavailable !== undefined) throw new Refusal(unavailable)
}

/** A place request under the names of its command, and its claim. `at` prefixes field names. */
function orderOf(intake: Intake, request: Parsed<typeof PlaceRequest>, at = '') {
  checkInstrumentRules(request, rulesFor(intake, request.symbol), at)
  const { expiry_slot, continuation_anchors: anchors } = request
  // Named one by one: an object of the rest of the fields takes several times as long.
  const order = {
    order_id: request.order_id,
    trading_key: request.trading_key,
    symbol: request.symbol,
    side: request.side,
    type: request.type,
    amount: request.amount,
    price_limit: request.price_limit,
    min_fill: request.min_fill ?? 0n,
    expiry_slot,
    nonce: request.nonce,
    collateral_commitment: request.collateral_commitment,
    anchors,
    signature: request.signature,
  }
  const body = PLACE_BODY.encode({
    ...order,
    venue: intake.venue,
    expiry_slot: BigInt(expiry_slot),
    anchor_pool_hash: anchorPoolHash(anchors),
  })
  return { order, claim: claimOf(request, body) }
}

function openedBy({ known }: Intake, request: Parsed<typeof PlaceRequest>): NoteFact | undefined {
  return openNote(known, request.collateral_commitment, request.opening, request.trading_key)
}

export function intakeCancel({ venue }: Intake, account_id: string, request: CancelFields): Signed<Cancel> {
  const claim = claimOf(request, CANCEL_BODY.encode({ ...request, venue }))
  return signedBy([claim], () => ({ ...request, kind: 'cancel', account_id }))
}

/** One command for up to 64 requests. Refuses `instrument_unknown`; each check covers all items before the next begins. */
export function intakeCancelAll(
  intake: Intake,
  account_id: string,
  items: CancelAllFields[],
): Signed<CancelAll> {
  for (const { symbol } of items) if (symbol !== undefined) rulesFor(intake, symbol)
  const { venue } = intake
  const claims = items.map(({ symbol = '', ...item }) =>
    claimOf(item, CANCEL_ALL_BODY.encode({ ...item, venue, symbol })),
  )
  return signedBy(claims, () => ({ kind: 'cancel_all', account_id, items }))
}

/** Refuses `timeout_out_of_range`; `timeout_slots` 0 disarms. */
export function intakeDeadMan(
  { venue }: Intake,
  account_id: string,
  request: Parsed<typeof DeadManRequest>,
): Signed<DeadMan> {
  if (request.timeout_slots > DEAD_MAN_SLOTS_MAX) {
    throw new Refusal('timeout_out_of_range', { field: 'timeout_slots' })
  }
  const timeout_slots = BigInt(request.timeout_slots)
  const claim = claimOf(request, DEAD_MAN_BODY.encode({ ...request, venue, timeout_slots }))
  return signedBy([claim], () => ({ ...request, kind: 'dead_man', account_id }))
}

export function intakeWithdrawal(
  { venue, known }: Intake,
  account_id: string,
  request: Parsed<typeof WithdrawalRequest>,
): Signed<Withdraw> {
  const body = WITHDRAW_BODY.encode({ ...request, venue, expiry_slot: BigInt(request.expiry_slot) })
  return signedBy([claimOf(request, body)], () => ({
    ...request,
    kind: 'withdraw',
    account_id,
    withdrawal_id: bodyId(body),
    opening: openNote(known, request.commitment, request.opening, request.trading_key),
  }))
}

/** A merge or a split of 1 to 4 notes into 1 to 4. Refuses `reshape_invalid` of one into one and unaligned openings. */
export function intakeReshape(
  { venue, known }: Intake,
  account_id: string,
  request: Parsed<typeof ReshapeRequest>,
): Signed<Reshape> {
  const { inputs, amounts, openings, trading_key } = request
  if (inputs.length === 1 && amounts.length === 1) throw new Refusal('reshape_invalid', { field: 'inputs' })
  if (openings !== undefined && openings.length !== inputs.length) {
    throw new Refusal('field_invalid', { field: 'openings' })
  }
  const body = RESHAPE_BODY.encode({ ...request, venue, expiry_slot: BigInt(request.expiry_slot) })
  return signedBy([claimOf(request, body)], () => ({
    ...request,
    kind: 'reshape',
    account_id,
    reshape_id: bodyId(body),
    openings: inputs.map((input, at) => openNote(known, input, openings?.[at], trading_key)),
  }))
}
