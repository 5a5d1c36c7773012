/** Forced checks: what must be refused is refused, with its code. */

import type { Instrument, PlaceRequest } from '../../protocol/wire'
import { VenueProblem } from '../api/venue_problem'
import { dropRefused } from '../wallet/drop_refused'
import { prepareCancel } from '../wallet/prepare_cancel'
import { collateralOf, preparePlace } from '../wallet/prepare_place'
import { check, DemoFailed } from './report'
import type { Trader } from './trader'

/** The refusal a call meets. @throws DemoFailed when it is accepted. */
async function refusal(what: string, attempt: () => Promise<unknown>): Promise<VenueProblem> {
  try {
    await attempt()
  } catch (error) {
    if (error instanceof VenueProblem) return error
    throw error
  }
  throw new DemoFailed(`${what} was accepted`)
}

async function signedOrder(trader: Trader, instrument: Instrument): Promise<PlaceRequest> {
  const { slot } = await trader.client.time()
  const terms = {
    instrument,
    side: 'sell',
    amount: 1_000_000_000n,
    price_limit: 157_000_000n,
    expiry_slot: slot + 3_000,
  } as const
  const note = trader.wallet.noteFor(collateralOf(terms).mint, terms.amount)
  if (note === undefined) throw new DemoFailed(`${trader.name} has no note left for the forced checks`)
  const request = preparePlace(trader.wallet, trader.venue, terms, note)
  trader.save()
  return request
}

export async function forcedRefusals(owner: Trader, stranger: Trader, sol: Instrument): Promise<void> {
  const forged = await signedOrder(owner, sol)
  const wrong_key = { ...forged, trading_key: stranger.wallet.tradingKeyText(0) }
  const not_signed = await refusal('an order with a wrong key', () => owner.client.place(wrong_key))
  check(
    not_signed.code === 'signature_invalid',
    'a wrong key is refused',
    `${not_signed.status} ${not_signed.code}`,
  )
  dropRefused(owner.wallet, forged.order_id)

  const order = await signedOrder(owner, sol)
  await owner.client.place(order)
  const resent = await refusal('a replayed order', () => owner.client.place(order))
  check(
    resent.code === 'order_exists',
    'a replayed order changes nothing',
    `${resent.status} ${resent.code}, applied ${resent.applied}`,
  )

  const cancel = prepareCancel(stranger.wallet, stranger.venue, order.order_id, 0)
  const foreign = await refusal("cancelling another's order", () =>
    stranger.client.cancel(order.order_id, cancel),
  )
  check(
    foreign.code === 'not_owner',
    "another's order cannot be cancelled",
    `${foreign.status} ${foreign.code}`,
  )

  await owner.cancel(order.order_id)
  await owner.untilOrder(order.order_id, 'cancelled')
  const again = await refusal('a replay after the cancel', () => owner.client.place(order))
  check(again.code === 'order_exists', 'not even after it was cancelled', `${again.status} ${again.code}`)
}
