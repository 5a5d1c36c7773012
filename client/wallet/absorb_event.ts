/** Brings a wallet up to date with one account event; every new note is recomputed, never taken on trust. */

import { decodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { deriveAnchor } from '../../protocol/derive'
import { openingCommitment, outputBlinding } from '../../protocol/notes'
import type { AccountEvent, Fill, Order, Reshape, Withdrawal } from '../../protocol/wire'
import type { Wallet, WalletNote, WalletOrder, WalletPayment } from './wallet'

/** The venue names a note that the wallet's own derivation does not give: do not trust it further. */
export class WalletMismatch extends Error {
  constructor(what: string) {
    super(`${what} differs from what this wallet derives`)
    this.name = 'WalletMismatch'
  }
}

const NO_ORDER = new Uint8Array(16)

type Output = {
  key_index: number
  anchor: Uint8Array
  order_id: Uint8Array
  nonce: bigint
  index_role: number
}
type Made = {
  mint: string
  amount: bigint
  commitment: string
  origin: WalletNote['origin']
  state: WalletNote['state']
}

/** Adds an output after checking its commitment. @throws WalletMismatch */
function addOutput(wallet: Wallet, generation: number, output: Output, made: Made): void {
  if (wallet.note(made.commitment) !== undefined) return
  const blinding = outputBlinding({ ...output, generation })
  const owner = wallet.tradingKey(output.key_index)
  const mint = decodeBase58(made.mint, 32)!
  const commitment = openingCommitment({ owner, mint, amount: made.amount, blinding })
  if (toHex(commitment) !== made.commitment) throw new WalletMismatch(`a ${made.origin} note`)
  wallet.state.notes.push({
    commitment: made.commitment,
    key_index: output.key_index,
    mint: made.mint,
    amount: String(made.amount),
    blinding: toHex(blinding),
    state: made.state,
    origin: made.origin,
  })
}

function absorbFill(wallet: Wallet, generation: number, fill: Fill): void {
  const order = wallet.order(fill.order_id)
  if (order === undefined || fill.fill_index < order.fills) return
  const collateral = wallet.note(order.collateral)
  if (collateral === undefined) throw new WalletMismatch('the collateral of a fill')
  const [amount, quote, fee] = [BigInt(fill.amount), BigInt(fill.quote_amount), BigInt(fill.fee)]
  const buys = order.side === 'buy'
  const output = outputOf(wallet, order, fill)
  const proceeds = { commitment: fill.proceeds_commitment, origin: 'proceeds', state: 'free' } as const
  addOutput(wallet, generation, output, {
    ...proceeds,
    mint: buys ? order.base_mint : order.quote_mint,
    amount: buys ? amount : quote - fee,
  })
  collateral.state = 'spent'
  wallet.payFee(order.quote_mint, fee)
  order.fills = fill.fill_index + 1
  const change = BigInt(collateral.amount) - (buys ? quote + fee : amount)
  if (change < 0n || change > 0n !== (fill.change_commitment !== undefined))
    throw new WalletMismatch('the change of a fill')
  if (fill.change_commitment === undefined) return
  addOutput(
    wallet,
    generation,
    { ...output, index_role: output.index_role + 1 },
    {
      mint: collateral.mint,
      amount: change,
      commitment: fill.change_commitment,
      origin: 'change',
      state: order.open ? 'pending' : 'free',
    },
  )
  order.collateral = fill.change_commitment
}

function outputOf(wallet: Wallet, order: WalletOrder, fill: Fill): Output {
  const anchor = deriveAnchor(
    wallet.seed,
    order.key_index,
    16 * order.command + (fill.fill_index % order.anchor_count),
  )
  const order_id = fromHex(order.order_id, 16)!
  return {
    key_index: order.key_index,
    anchor,
    order_id,
    nonce: BigInt(order.nonce),
    index_role: 2 * fill.fill_index,
  }
}

/** A final order gives its note back, unless a fill still on its way consumes it. */
function absorbFinal(wallet: Wallet, data: Order): void {
  const order = wallet.order(data.order_id)
  if (order === undefined) return
  order.open = false
  const note = wallet.note(order.collateral)
  if (note?.state === 'pending') note.state = 'free'
}

/** The collateral of a replaced order backs its replacement. */
function absorbReplaced(wallet: Wallet, data: Order): void {
  const order = wallet.order(data.order_id)
  if (order === undefined) return
  order.open = false
  const heir = data.replaced_by === undefined ? undefined : wallet.order(data.replaced_by)
  const note = wallet.note(order.collateral)
  if (note?.state === 'pending' && heir?.collateral !== order.collateral) note.state = 'free'
}

function paymentOutput(wallet: Wallet, payment: WalletPayment, index_role: number): Output {
  const { key_index, command } = payment
  const anchor = deriveAnchor(wallet.seed, key_index, 16 * command)
  return { key_index, anchor, order_id: NO_ORDER, nonce: BigInt(command + 1), index_role }
}

function absorbWithdrawal(wallet: Wallet, generation: number, data: Withdrawal): void {
  const payment = wallet.state.payments.find((one) => one.id === data.withdrawal_id)
  const note = wallet.note(data.commitment)
  if (payment === undefined || note === undefined) return
  if (note.state !== 'spent' && data.status !== 'voided') {
    note.state = 'spent'
    wallet.payFee(note.mint, BigInt(data.fee))
  }
  if (data.change_commitment !== undefined) {
    const amount = BigInt(note.amount) - BigInt(data.amount) - BigInt(data.fee)
    const made = {
      mint: note.mint,
      amount,
      commitment: data.change_commitment,
      origin: 'change',
      state: 'free',
    } as const
    addOutput(wallet, generation, paymentOutput(wallet, payment, 1), made)
  }
}

function absorbReshape(wallet: Wallet, generation: number, data: Reshape): void {
  const payment = wallet.state.payments.find((one) => one.id === data.reshape_id)
  const mint = wallet.note(data.inputs[0] ?? '')?.mint
  if (payment === undefined || mint === undefined) return
  data.outputs.forEach(({ commitment, amount }, j) => {
    const made = { mint, amount: BigInt(amount), commitment, origin: 'reshape', state: 'free' } as const
    addOutput(wallet, generation, paymentOutput(wallet, payment, 2 * j + 1), made)
  })
  if (data.outputs.length > 0) for (const input of data.inputs) wallet.note(input)!.state = 'spent'
}

/** Absorbs events in seq order; one already absorbed changes nothing. @throws WalletMismatch */
export function absorbEvent(wallet: Wallet, generation: number, event: AccountEvent): void {
  if (event.seq <= wallet.state.seq) return
  const kind = event.kind
  if (kind === 'fill.matched') absorbFill(wallet, generation, event.data as Fill)
  else if (kind === 'order.replaced') absorbReplaced(wallet, event.data as Order)
  else if (kind === 'order.filled' || kind === 'order.cancelled' || kind === 'order.expired')
    absorbFinal(wallet, event.data as Order)
  else if (kind.startsWith('withdrawal.')) absorbWithdrawal(wallet, generation, event.data as Withdrawal)
  else if (kind.startsWith('reshape.')) absorbReshape(wallet, generation, event.data as Reshape)
  wallet.state.seq = event.seq
}
