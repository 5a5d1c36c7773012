/** Turns place and modify requests into commands, and checks orders without placing them. */
import { encodeCancel } from '../../protocol/bodies/cancel'
import { anchorPoolHash, encodePlace } from '../../protocol/bodies/place'
import { equalBytes } from '../../protocol/bytes'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { sha256 } from '../../protocol/sha256'
import type { CheckRequest, ModifyParams, PlaceRequest } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { Modify, NoteFact, Place } from '../commands'
import { checkExpiry } from '../machine/rules/checks'
import { instrumentOf, nextClose } from '../machine/state/instrument'
import type { State } from '../machine/state/state'
import { type Intake, openNote, rulesFor, type Signed, signedBy } from './context'
import { checkInstrumentRules } from './instrument_rules'

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
  const body = encodeCancel({ ...cancel, venue: intake.venue })
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
  const body = encodePlace({
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
