/** Owns how rows are named: the strings that seals are bound to and that hashes are made of. */
import type * as wire from '../../protocol/wire'

export const eventRow = (account_id: string, seq: number): string => `event/${account_id}/${seq}`
/** `id` is the hashed name of the order, which a listing knows before it knows the order. */
export const orderRow = (id: Uint8Array): string => `order/${id.toHex()}`
export const fillRow = (id: Uint8Array, fill_index: number): string => `fill/${id.toHex()}/${fill_index}`
export const paymentRow = (kind: 'withdrawal' | 'reshape', id: string): string => `${kind}/${id}`

export const isOpen = (status: wire.OrderStatus): boolean =>
  status === 'accepted' || status === 'partially_filled'

export const isFinalPayment = (status: wire.WithdrawalStatus | wire.ReshapeStatus): boolean =>
  status === 'finalized' || status === 'refunded' || status === 'voided'
