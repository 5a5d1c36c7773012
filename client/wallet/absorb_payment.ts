/** Withdrawals and reshapes as their events tell them: inputs are spent, change and outputs are new notes. */
import { deriveAnchor } from '../../protocol/derive'
import type { Reshape, Withdrawal } from '../../protocol/wire'
import { type OutputSource, ownOutput, WalletMismatch } from './own_output'
import type { Wallet, WalletPayment } from './wallet'

const NO_ORDER = new Uint8Array(16)

/** `index_role`: change of a withdrawal 1, its refund 3; output j of a reshape 2j + 1. */
export function paymentSource(
  wallet: Wallet,
  generation: number,
  payment: Pick<WalletPayment, 'key_index' | 'command'>,
  index_role: number,
): OutputSource {
  const { key_index, command } = payment
  const anchor = deriveAnchor(wallet.seed, key_index, 16 * command)
  return { key_index, generation, anchor, order_id: NO_ORDER, nonce: BigInt(command + 1), index_role }
}

/** Gives the inputs of a command that will not settle back. */
function free(wallet: Wallet, inputs: string[]): void {
  for (const input of inputs) {
    const note = wallet.note(input)
    if (note?.state === 'pending') note.state = 'free'
  }
}

/** A refund is remembered until `adoptRefunds` finds the leaf the program gave it. @throws WalletMismatch */
export function absorbWithdrawal(wallet: Wallet, generation: number, data: Withdrawal): void {
  const payment = wallet.payment(data.withdrawal_id)
  const note = wallet.note(data.commitment)
  if (payment === undefined || note === undefined) return
  if (data.status === 'voided') {
    free(wallet, payment.inputs)
    return
  }
  if (data.amount !== payment.amounts[0]) throw new WalletMismatch('the amount of a withdrawal')
  if (data.change_commitment !== undefined) {
    const made = {
      mint: note.mint,
      amount: BigInt(note.amount) - BigInt(data.amount) - BigInt(data.fee),
      commitment: data.change_commitment,
      origin: 'change',
      state: 'free',
    } as const
    wallet.addNote(ownOutput(wallet, paymentSource(wallet, generation, payment, 1), made))
  }
  const under_way = data.status === 'accepted' && data.change_commitment === undefined
  if (note.state !== 'spent' && !under_way) {
    note.state = 'spent'
    wallet.payFee(note.mint, BigInt(data.fee))
  }
  if (data.status !== 'refunded') return
  if (data.refund_commitment === undefined) throw new WalletMismatch('a refund without its note')
  payment.refund = { commitment: data.refund_commitment, mint: note.mint, generation }
}

/** @throws WalletMismatch */
export function absorbReshape(wallet: Wallet, generation: number, data: Reshape): void {
  const payment = wallet.payment(data.reshape_id)
  const mint = wallet.note(payment?.inputs[0] ?? '')?.mint
  if (payment === undefined || mint === undefined) return
  if (data.status === 'voided') {
    free(wallet, payment.inputs)
    return
  }
  if (data.outputs.length === 0) return
  if (data.outputs.length !== payment.amounts.length) throw new WalletMismatch('the outputs of a reshape')
  const outputs = data.outputs.map(({ commitment }, j) => {
    const amount = BigInt(payment.amounts[j]!)
    const made = { mint, amount, commitment, origin: 'reshape', state: 'free' } as const
    return ownOutput(wallet, paymentSource(wallet, generation, payment, 2 * j + 1), made)
  })
  for (const output of outputs) wallet.addNote(output)
  for (const input of payment.inputs) wallet.note(input)!.state = 'spent'
}
