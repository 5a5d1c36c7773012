/**
 * Turns the requests of traders into commands: place, modify, cancel, timers, withdrawals, reshapes; checks orders without
 * placing them.
 */
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
import { equalBytes } from '../../protocol/bytes'
import { DEAD_MAN_SLOTS_MAX } from '../../protocol/limits'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { sha256 } from '../../protocol/sha256'
import type {
  CheckRequest,
  DeadManRequest,
  ModifyParams,
  PlaceRequest,
  ReshapeRequest,
  WithdrawalRequest,
} from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type {
  Cancel,
  CancelAll,
  CancelAllFields,
  CancelFields,
  DeadMan,
  Modify,
  NoteFact,
  Place,
  Reshape,
  Withdraw,
} from '../commands'
import { checkExpiry } from '../machine/rules/checks'
import { instrumentOf, nextClose } from '../machine/state/instrument'
import type { State } from '../machine/state/state'
import { checkInstrumentRules, type Intake, openNote, rulesFor, type Signed, signedBy } from './context'

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
    digest: sha256(claim.body),
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
  return signedBy([{ ...cancel, body }, claim], () => ({
    kind: 'modify',
    account_id,
    origin,
    cancel,
    replacement: {
      ...order,
      opening: openedBy(intake, replacement),
      digest: sha256(body, claim.body),
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
  const { continuation_anchors: anchors, min_fill = 0n, ...terms } = request
  const order = { ...terms, min_fill, anchors }
  const body = PLACE_BODY.encode({
    ...order,
    venue: intake.venue,
    expiry_slot: BigInt(order.expiry_slot),
    anchor_pool_hash: anchorPoolHash(anchors),
  })
  const { signature, trading_key } = request
  return { order, claim: { signature, body, trading_key } }
}

function openedBy({ known }: Intake, request: Parsed<typeof PlaceRequest>): NoteFact | undefined {
  return openNote(known, request.collateral_commitment, request.opening, request.trading_key)
}

export function intakeCancel({ venue }: Intake, account_id: string, request: CancelFields): Signed<Cancel> {
  const claim = { ...request, body: CANCEL_BODY.encode({ ...request, venue }) }
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
  const claims = items.map(({ symbol = '', ...item }) => ({
    ...item,
    body: CANCEL_ALL_BODY.encode({ ...item, venue, symbol }),
  }))
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
  const claim = { ...request, body: DEAD_MAN_BODY.encode({ ...request, venue, timeout_slots }) }
  return signedBy([claim], () => ({ ...request, kind: 'dead_man', account_id }))
}

export function intakeWithdrawal(
  { venue, known }: Intake,
  account_id: string,
  request: Parsed<typeof WithdrawalRequest>,
): Signed<Withdraw> {
  const body = WITHDRAW_BODY.encode({ ...request, venue, expiry_slot: BigInt(request.expiry_slot) })
  return signedBy([{ ...request, body }], () => ({
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
  return signedBy([{ ...request, body }], () => ({
    ...request,
    kind: 'reshape',
    account_id,
    reshape_id: bodyId(body),
    openings: inputs.map((input, at) => openNote(known, input, openings?.[at], trading_key)),
  }))
}
