/** A fill consumes the order's collateral and gives proceeds and change; a voided one takes all of it back. */
import { fromHex } from '../../protocol/bytes'
import { deriveAnchor } from '../../protocol/derive'
import { feeUpTo } from '../../protocol/units'
import type { Fill } from '../../protocol/wire'
import { type OutputSource, ownOutput, WalletMismatch } from './own_output'
import type { Wallet, WalletNote, WalletOrder } from './wallet'

/** @throws WalletMismatch when price, fee, a commitment or the presence of change is not what the order's terms give */
export function absorbFill(wallet: Wallet, generation: number, fill: Fill): void {
  const order = wallet.order(fill.order_id)
  if (order === undefined || fill.fill_index < order.consumed.length) return
  const collateral = wallet.note(order.collateral)
  if (collateral === undefined || fill.fill_index > order.consumed.length)
    throw new WalletMismatch('the collateral of a fill')
  checkPrice(order, fill)
  const [amount, quote, fee] = [BigInt(fill.amount), BigInt(fill.quote_amount), BigInt(fill.fee)]
  const buys = order.side === 'buy'
  const change = BigInt(collateral.amount) - (buys ? quote + fee : amount)
  if (change < 0n || change > 0n !== (fill.change_commitment !== undefined))
    throw new WalletMismatch('the change of a fill')
  const source = sourceOf(wallet, generation, order, fill)
  const proceeds = buys ? { mint: order.base_mint, amount } : { mint: order.quote_mint, amount: quote - fee }
  const filled = String(BigInt(order.filled) + amount)
  const made: WalletNote[] = []
  // Proceeds of nothing (a tiny sale that its fee eats whole) make no note.
  if (proceeds.amount > 0n) {
    const commitment = fill.proceeds_commitment
    made.push(ownOutput(wallet, source, { ...proceeds, commitment, origin: 'proceeds', state: 'free' }))
  }
  if (fill.change_commitment !== undefined) {
    const state = order.open || filled !== order.filled_final ? 'pending' : 'free'
    const rest = { mint: collateral.mint, amount: change, origin: 'change', state } as const
    const commitment = fill.change_commitment
    made.push(ownOutput(wallet, { ...source, index_role: source.index_role + 1 }, { ...rest, commitment }))
  }
  for (const note of made) wallet.addNote(note)
  collateral.state = 'spent'
  wallet.payFee(order.quote_mint, fee)
  order.filled = filled
  order.quote = String(BigInt(order.quote) + quote)
  order.fee = String(BigInt(order.fee) + fee)
  order.consumed.push(order.collateral)
  if (fill.change_commitment !== undefined) order.collateral = fill.change_commitment
}

/** No worse than the limit, exact to the unit, and all fees so far within what the signed terms allow. */
function checkPrice(order: WalletOrder, fill: Fill): void {
  const [price, limit] = [BigInt(fill.price), BigInt(order.price_limit)]
  const quote = BigInt(fill.quote_amount)
  const inexact = BigInt(fill.amount) * price !== quote * 10n ** BigInt(order.base_decimals)
  const worse = order.side === 'buy' ? price > limit : price < limit
  if (worse || inexact) throw new WalletMismatch('the price of a fill')
  const fee_max = feeUpTo(BigInt(order.quote) + quote, order.fee_bps) - BigInt(order.fee)
  if (BigInt(fill.fee) < 0n || BigInt(fill.fee) > fee_max) throw new WalletMismatch('the fee of a fill')
}

function sourceOf(wallet: Wallet, generation: number, order: WalletOrder, fill: Fill): OutputSource {
  const { key_index, command, anchor_count } = order
  return {
    key_index,
    generation,
    anchor: deriveAnchor(wallet.seed, key_index, 16 * command + (fill.fill_index % anchor_count)),
    order_id: fromHex(order.order_id, 16)!,
    nonce: BigInt(order.nonce),
    index_role: 2 * fill.fill_index,
  }
}

/**
 * A fill that never reaches the chain (the vault was frozen, or restored): its notes do not exist and the note it
 * consumed is unspent. Fills are voided from some fill on to the last, told in any order.
 */
export function absorbVoidedFill(wallet: Wallet, fill: Fill): void {
  const order = wallet.order(fill.order_id)
  const consumed = order?.consumed[fill.fill_index]
  if (order === undefined || consumed === undefined) return
  const gone = [fill.proceeds_commitment, fill.change_commitment]
  wallet.state.notes = wallet.state.notes.filter((note) => !gone.includes(note.commitment))
  const note = wallet.note(consumed)
  if (note?.state === 'spent') note.state = 'free'
  wallet.payFee(order.quote_mint, -BigInt(fill.fee))
}
