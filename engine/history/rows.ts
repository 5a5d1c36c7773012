/** Owns how rows are named: the strings that seals are bound to and that hashes are made of. */
import type * as wire from '../../protocol/wire'

/** A block of an account's events; an account's events are gapless, so the first seq says which they are. */
export const blockRow = (account_id: string, seq_first: number): string => `block/${account_id}/${seq_first}`
/** `account` is the number under which the database knows the account. */
export const accountRow = (account: number): string => `account/${account}`

export const isOpen = (status: wire.OrderStatus): boolean =>
  status === 'accepted' || status === 'partially_filled'

export const isFinalPayment = (status: wire.WithdrawalStatus | wire.ReshapeStatus): boolean =>
  status === 'finalized' || status === 'refunded' || status === 'voided'
