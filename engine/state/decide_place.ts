/** Decides a place command. Form, instrument rules and the signature are checked before (protocol.md "Order of checks"). */
import { feeUpTo } from '../../protocol/units'
import { TICK_MAX } from '../book/book'
import type { CommandOf, PlaceFields } from '../commands'
import { checkBacklog, checkKeyLimit, checkOrderLimit, checkSubsystems } from './check_capacity'
import { checkExpiry } from './check_expiry'
import { checkNonce } from './check_nonce'
import { checkNote, type NoteFound } from './check_note'
import { crossesOwn } from './check_self_cross'
import { checkSigner, type Signer } from './check_signer'
import { baseOf, type InstrumentState, nextClose, quoteOf } from './instrument'
import { instrumentOf } from './instrument_of'
import type { Order } from './order'
import { placeAnswer } from './order_view'
import { type Env, type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

/** Everything applying an accepted place needs; quantities in lots, prices in ticks. */
export type PlacePlan = {
  ok: true
  signer: Signer
  instrument: InstrumentState
  lots: number
  ticks: number
  min_lots: number
  note: NoteFound
}

export function decidePlace(state: State, command: CommandOf<'place'>, env: Env): PlacePlan | RefusedOutcome {
  const signer = checkSigner(state, command.account_id, command.trading_key)
  if (!signer.ok) return signer
  if (signer.account.status === 'suspended') return refuse('account_suspended')
  return (
    checkResend(state, command) ??
    checkNonce(signer.key, 'place_nonce', command.nonce) ??
    decideOrder(state, command, signer, env)
  )
}

/** An id is used once: the same command again learns its result, another one that the id is taken. */
function checkResend(state: State, body: PlaceFields): RefusedOutcome | undefined {
  const known = state.orders.find(body.order_id) ?? state.finals.find(body.order_id)
  if (known === undefined) return undefined
  if (known.digest !== body.digest.toHex()) return refuse('order_id_taken')
  return refuse('order_exists', { result: placeAnswer(known) })
}

/** The checks a place and the replacement of a modify share, from the expiry on. `old` is the order replaced. */
export function decideOrder(
  state: State,
  body: PlaceFields,
  signer: Signer,
  env: Env,
  old?: Order,
): PlacePlan | RefusedOutcome {
  const instrument = instrumentOf(state, body.symbol)
  const { terms } = instrument
  const ticks = Number(body.price_limit / terms.tick_size)
  const lots = Number(body.amount / terms.lot_size)
  const expiry = checkExpiry(state, body.expiry_slot, nextClose(instrument, state.slot))
  if (expiry !== undefined) return expiry
  const note = checkNote(state, {
    commitment: body.collateral_commitment,
    opening: body.opening,
    owner: signer.text,
    mint: body.side === 'buy' ? terms.quote : terms.base,
    released: old?.collateral,
  })
  if (!note.ok) return note
  const quote = quoteOf(terms, lots, ticks)
  const needed = body.side === 'buy' ? quote + feeUpTo(quote, terms.fee_bps) : baseOf(terms, lots)
  if (note.note.amount < needed) return refuse('collateral_insufficient')
  if (crossesOwn(signer.account, instrument, body.side, ticks, old)) return refuse('self_cross')
  const refused =
    checkInstrumentOpen(instrument) ??
    checkSubsystems(state, env) ??
    checkOrderLimit(state, signer, old === undefined ? 0 : 1) ??
    checkKeyLimit(signer) ??
    checkBacklog(state)
  if (refused !== undefined) return refused
  if (ticks > TICK_MAX) throw new Error('a limit price is beyond what intake lets through')
  const min_lots = Number(body.min_fill / terms.lot_size)
  return { ok: true, signer, instrument, lots, ticks, min_lots, note }
}

function checkInstrumentOpen(instrument: InstrumentState): RefusedOutcome | undefined {
  return instrument.status === 'active' ? undefined : refuse('instrument_paused')
}
