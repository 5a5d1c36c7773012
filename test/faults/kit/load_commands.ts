/** What a trader under load does next: places, cancels, modifies, merges; each built once and sent as the same bytes. */
import {
  collateralOf,
  dropRefused,
  dropRefusedPayment,
  prepareCancel,
  prepareModify,
  preparePlace,
  prepareReshape,
} from '../../../client/wallet/prepare'
import type { WalletNote } from '../../../client/wallet/wallet'
import type { Random } from '../../kit/random'
import type { LoadTrader } from './load_trader'

export type Command = {
  kind: 'place' | 'cancel' | 'modify' | 'reshape'
  key_index: number
  /** The order made or cancelled, or the reshape. */
  order_id: string
  /** The order a modify ends. */
  replaces?: string
  send(): Promise<{ seq: number }>
  /** What the wallet forgets when it is rejected. */
  undo(): void
  fate: 'new' | 'accepted' | 'refused' | 'unknown'
  /** Sent again after its answer was lost. */
  resent?: boolean
  /** Of the account, once accepted. */
  seq?: number
  code?: string
}

const LOT = 1_000_000n
const TICK = 1_000n
const AMOUNT_MIN = 10_000_000n
const LIFE_SLOTS = 100_000
const OPEN_MAX = 4
const MERGED_MAX = 4
/** Ticks: where the account's own buys begin, by its lean; its sells lie above them. */
const RANGE_FROM = [146_000, 148_000, 144_000]
const RANGE_TICKS = 4_000

/** Undefined while the key has nothing to trade with. */
export function nextCommand(trader: LoadTrader, key_index: number, random: Random): Command | undefined {
  const open = trader.wallet.state.orders.filter((order) => order.open && order.key_index === key_index)
  const notes = trader.wallet.state.notes.filter(
    (note) => note.state === 'free' && note.key_index === key_index,
  )
  const choice = random.below(10)
  if (open.length > 0 && (choice < 2 || open.length >= OPEN_MAX)) {
    return cancel(trader, key_index, random.pick(open).order_id)
  }
  if (open.length > 0 && choice < 4) return modify(trader, key_index, random.pick(open), random)
  if (notes.length === 0) return undefined
  const alike = notes.filter(({ mint }) => mint === notes[0]!.mint).slice(0, MERGED_MAX)
  if (alike.length > 1 && choice === 9) return merge(trader, key_index, alike)
  return place(trader, random.pick(notes), random)
}

function cancel(trader: LoadTrader, key_index: number, order_id: string): Command {
  const request = prepareCancel(trader.wallet, trader.venue, order_id, key_index)
  const send = () => trader.client.cancel(order_id, request)
  return { kind: 'cancel', key_index, order_id, send, undo() {}, fate: 'new' }
}

function merge(trader: LoadTrader, key_index: number, notes: WalletNote[]): Command {
  const amounts = [notes.reduce((sum, { amount }) => sum + BigInt(amount), 0n)]
  const to = { amounts, expiry_slot: trader.slot + LIFE_SLOTS }
  const request = prepareReshape(trader.wallet, trader.venue, notes, to)
  const { id } = trader.wallet.state.payments.at(-1)!
  const send = () => trader.client.reshape(request)
  const undo = () => dropRefusedPayment(trader.wallet, request)
  return { kind: 'reshape', key_index, order_id: id, send, undo, fate: 'new' }
}

function place(trader: LoadTrader, note: WalletNote, random: Random): Command | undefined {
  const terms = termsFor(trader, note, random)
  if (terms === undefined) return undefined
  const request = preparePlace(trader.wallet, trader.venue, terms, note)
  const send = () => trader.client.place(request)
  const { order_id } = request
  const undo = () => dropRefused(trader.wallet, order_id)
  return { kind: 'place', key_index: note.key_index, order_id, send, undo, fate: 'new' }
}

function modify(
  trader: LoadTrader,
  key_index: number,
  old: { order_id: string; collateral: string },
  random: Random,
): Command | undefined {
  const note = trader.wallet.note(old.collateral)
  // A fill or an end that the wallet knows already leaves nothing to replace.
  if (note?.state !== 'pending' || !trader.wallet.order(old.order_id)?.open) return undefined
  const terms = termsFor(trader, note, random)
  if (terms === undefined) return undefined
  const request = prepareModify(trader.wallet, trader.venue, old.order_id, terms)
  const send = () => trader.client.modify(old.order_id, request)
  const { order_id } = request.replacement
  // The note of a rejected replacement still backs the order it was to replace.
  const undo = () => {
    trader.wallet.order(order_id)!.open = false
  }
  return { kind: 'modify', key_index, order_id, replaces: old.order_id, send, undo, fate: 'new' }
}

/** Some of the note, at a price where other accounts trade and the account itself never crosses. */
function termsFor(trader: LoadTrader, note: WalletNote, random: Random) {
  const { instrument, slot } = trader
  const side = note.mint === instrument.quote_mint ? ('buy' as const) : ('sell' as const)
  const from = RANGE_FROM[trader.lean % RANGE_FROM.length]! + (side === 'buy' ? 0 : RANGE_TICKS)
  const price_limit = BigInt(from + random.below(RANGE_TICKS)) * TICK
  const type = random.below(5) === 0 ? ('ioc' as const) : ('limit' as const)
  const amount = AMOUNT_MIN + BigInt(random.below(1_000)) * LOT
  const terms = { instrument, side, type, amount, price_limit, expiry_slot: slot + LIFE_SLOTS }
  for (const part of [1n, 4n, 16n]) {
    const lots = terms.amount / LOT / part
    const smaller = { ...terms, amount: lots * LOT }
    if (smaller.amount < AMOUNT_MIN) return undefined
    if (BigInt(note.amount) >= collateralOf(smaller).amount) return smaller
  }
  return undefined
}
