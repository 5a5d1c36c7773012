/**
 * Chooses the notes of a session's requests and the requests to be settled before them, and forgets notes of requests that the
 * venue rejected.
 */
import type { Instrument } from '../../protocol/wire/trading'
import type { VenueClient } from '../api/venue_client'
import { dropRefused, dropRefusedPayment, type OrderTerms } from '../wallet/prepare'
import type { Wallet, WalletNote, WalletRequest } from '../wallet/wallet'
import { NoNote, type SessionOrder, type SessionWithdrawal } from './session_options'
import { parseAmount, parseOrderAmount, parsePrice, requireLots, requireTicks } from './units'

/** The wallet forgets the rejected request. */
export function drop(wallet: Wallet, sent: WalletRequest): void {
  if (sent.kind === 'place' || sent.kind === 'modify') dropRefused(wallet, sent.id)
  if (sent.kind === 'withdraw' || sent.kind === 'reshape') dropRefusedPayment(wallet, sent.request)
}

const WITH_CANCEL_NONCE: readonly WalletRequest['kind'][] = ['cancel', 'cancel_all', 'dead_man', 'modify']

/**
 * Open requests that a later cancel nonce of their key would leave without an outcome: no order and no answer shows whether
 * they were applied.
 */
export function undecidableBefore(sent: WalletRequest, open: readonly WalletRequest[]): WalletRequest[] {
  if (!WITH_CANCEL_NONCE.includes(sent.kind)) return []
  const before = open.slice(
    0,
    open.findIndex(({ id }) => id === sent.id),
  )
  return before.filter((one) => one.key_index === sent.key_index && isUndecidable(one))
}
/** Once a later nonce of its key is used. */
export const isUndecidable = ({ kind }: WalletRequest): boolean =>
  kind === 'cancel_all' || kind === 'dead_man'

/** The largest notes of one key, as few as reach `amount` and four at most; undefined where a key's notes do not. */
export function mergeable(notes: readonly WalletNote[], amount: bigint): WalletNote[] | undefined {
  for (const key of new Set(notes.map(({ key_index }) => key_index))) {
    const own = notes.filter(({ key_index }) => key_index === key)
    if (total(own) < amount || own.length < 2) continue
    const largest = own.toSorted((a, b) => (BigInt(a.amount) > BigInt(b.amount) ? -1 : 1)).slice(0, 4)
    let count = 2
    while (count < largest.length && total(largest.slice(0, count)) < amount) count++
    return largest.slice(0, count)
  }
  return undefined
}

type Needed = { mint: string; amount: bigint }
/** The smallest free note that covers the amount, or the notes whose merge does. @throws NoNote */
export function notesFor(wallet: Wallet, { mint, amount }: Needed): WalletNote[] {
  const note = wallet.noteFor(mint, amount)
  const notes = note === undefined ? mergeable(wallet.freeNotes(mint), amount) : [note]
  if (notes === undefined) throw new NoNote(mint, amount)
  return notes
}
/**
 * Amount that a withdrawal pays, and amount that it takes with the mint's fee. @throws RangeError for a mint that the venue
 * does not have
 */
export async function dueFor(
  client: VenueClient,
  { mint, amount: asked }: Pick<SessionWithdrawal, 'mint' | 'amount'>,
) {
  const { mints } = await client.transparency()
  const listed = mints.find((one) => one.mint === mint)
  if (listed === undefined) throw new RangeError('the venue does not have this mint')
  const amount = typeof asked === 'bigint' ? asked : parseAmount(asked, listed.decimals)
  return { amount, needed: { mint, amount: amount + BigInt(listed.withdraw_fee) } }
}
/** @throws NoNote */
export function coveringNote(wallet: Wallet, { mint, amount }: Needed): WalletNote {
  const note = wallet.noteFor(mint, amount)
  if (note === undefined) throw new NoNote(mint, amount)
  return note
}
/** The key that signed the order. @throws RangeError for an order that is not in the wallet */
export function keyOf(wallet: Wallet, order_id: string): number {
  const order = wallet.order(order_id)
  if (order === undefined) throw new RangeError('the wallet has no such order')
  return order.key_index
}
export const cancelId = (of: { trading_key: string; cancel_nonce: string }): string =>
  `${of.trading_key}/${of.cancel_nonce}`
/** @throws InexactValue */
export function exactTerms(instrument: Instrument, order: SessionOrder): Omit<OrderTerms, 'expiry_slot'> {
  const { side, type = 'limit', price, min_fill } = order
  const units = (value: string | bigint): bigint =>
    typeof value === 'bigint' ? value : parseOrderAmount(instrument, value)
  const amount = units(order.amount)
  const price_limit = typeof price === 'bigint' ? price : parsePrice(instrument, price)
  requireLots(instrument, amount)
  requireTicks(instrument, price_limit)
  const least = min_fill === undefined ? {} : { min_fill: units(min_fill) }
  return { instrument, side, type, amount, price_limit, ...least }
}
export const total = (notes: readonly WalletNote[]): bigint =>
  notes.reduce((sum, note) => sum + BigInt(note.amount), 0n)
