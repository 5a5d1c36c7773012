/** The form of a withdrawal body. */
import type { Withdraw } from '../commands'
import { elementOf, integerOf, keyOf, nonceOf, objectOf, refuseField, signatureOf, u64Of } from './form'
import { type Opening, readOpening } from './read_opening'

/** A withdrawal before its signature is checked and its note is opened. */
export type WithdrawalForm = Omit<Withdraw, 'kind' | 'account_id' | 'withdrawal_id' | 'opening'> & {
  opening: Opening | undefined
}

const FIELDS = [
  'trading_key',
  'commitment',
  'destination',
  'amount',
  'nonce',
  'expiry_slot',
  'change_anchor',
  'signature',
] as const

/** Reads a withdrawal body. Refuses a form fault with its field; a zero amount is one. */
export function readWithdrawal(value: unknown): WithdrawalForm {
  const body = objectOf(value, '', FIELDS, ['opening'])
  const amount = u64Of(body['amount'], 'amount')
  if (amount === 0n) throw refuseField('field_invalid', 'amount')
  return {
    trading_key: keyOf(body['trading_key'], 'trading_key'),
    commitment: elementOf(body['commitment'], 'commitment'),
    destination: keyOf(body['destination'], 'destination'),
    amount,
    nonce: nonceOf(body['nonce'], 'nonce'),
    expiry_slot: integerOf(body['expiry_slot'], 'expiry_slot'),
    change_anchor: elementOf(body['change_anchor'], 'change_anchor'),
    opening: readOpening(body['opening'], 'opening'),
    signature: signatureOf(body['signature'], 'signature'),
  }
}
