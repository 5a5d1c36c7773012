/** A trader on a running venue: account, chain key, streams open, notes deposited for each of its keys. */
import { openChainAccess } from '../../../client/chain/chain_access'
import { preparePlace } from '../../../client/wallet/prepare'
import type { PlaceRequest, PlaceResult } from '../../../protocol/wire/trading'
import { fundTrader } from './fund_trader'
import { LoadTrader } from './load_trader'
import { openAccount } from './open_account'
import type { VenueProcess } from './venue_process'

export const SOL = 'So11111111111111111111111111111111111111112'
export const USDC = 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'
/** In each note. */
export const DEPOSITED: ReadonlyMap<string, bigint> = new Map([
  [SOL, 20_000_000_000n],
  [USDC, 3_000_000_000n],
])

export async function openTrader(
  venue: VenueProcess,
  name: string,
  of: { keys: number; notes: number; mints?: readonly string[] },
): Promise<LoadTrader> {
  const { client } = await openAccount(venue, name)
  const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const trader = new LoadTrader(name, of.keys, client, chain)
  await trader.connect()
  const mints = of.mints ?? [...DEPOSITED.keys()]
  const amounts = new Map(mints.map((mint) => [mint, DEPOSITED.get(mint)!]))
  await fundTrader(trader, venue.facts.program_id, amounts, of.notes)
  return trader
}

/** A sell far above the market, which therefore rests; nothing of it is drawn at random but the note's blinding. */
export async function restOrder(trader: LoadTrader): Promise<{ request: PlaceRequest; result: PlaceResult }> {
  const note = trader.wallet.noteFor(SOL, 1_000_000_000n)!
  const terms = {
    instrument: trader.instrument,
    side: 'sell',
    amount: 1_234_000_000n,
    price_limit: 155_321_000n,
    expiry_slot: trader.slot + 100_000,
  } as const
  const request = preparePlace(trader.wallet, trader.venue, terms, note)
  return { request, result: await trader.client.place(request) }
}

/** Sells what README's first order buys, at its price. */
export async function sellOnce(trader: LoadTrader): Promise<PlaceResult> {
  const terms = {
    instrument: trader.instrument,
    side: 'sell',
    amount: 1_500_000_000n,
    price_limit: 149_250_000n,
    expiry_slot: (await trader.client.time()).slot + 5_000,
  } as const
  const note = trader.wallet.noteFor(SOL, terms.amount)!
  return trader.client.place(preparePlace(trader.wallet, trader.venue, terms, note))
}
