/** The kinds of account events: the shape of the data of each, and what it says; the documents of the streams show both. */
import { AccountChange } from '../../protocol/wire/accounts'
import {
  BatchVoided,
  type EventKind,
  ExitEvent,
  Fill,
  NoteEvent,
  Order,
  OrderRefused,
  Reshape,
  Withdrawal,
} from '../../protocol/wire/trading'
import { type TSchema, t } from '../../protocol/wire/values'

const SHAPES = {
  Order,
  'Order or refusal': t.Union([Order, OrderRefused]),
  Batch: BatchVoided,
  Fill,
  Withdrawal,
  Reshape,
  Note: NoteEvent,
  Exit: ExitEvent,
  Account: AccountChange,
} as const satisfies Record<string, TSchema>
type ShapeName = keyof typeof SHAPES

export const EVENT_SHAPES: Readonly<Record<ShapeName, TSchema>> = SHAPES

export const EVENT_KINDS: Readonly<Record<EventKind, readonly [shape: ShapeName, meaning: string]>> = {
  'order.accepted': ['Order', 'The order is durable and takes part in the next batch.'],
  'order.partially_filled': ['Order', 'An auction filled a part; the rest stays live.'],
  'order.filled': ['Order', 'The order ended: all of it is matched.'],
  'order.cancelled': ['Order', 'The order ended; `reason` states why.'],
  'order.expired': ['Order', 'The order ended: its `expiry_slot` has passed.'],
  'order.replaced': ['Order', 'The order ended: `replaced_by` took its place.'],
  'order.cancel_pending': ['Order', 'The cancel waits for the decision of the closed batch.'],
  'order.replace_pending': ['Order', 'The modify waits for the decision of the closed batch.'],
  'order.cancel_refused': ['Order or refusal', 'The cancel that waited has no effect; `code` states why.'],
  'order.replace_refused': ['Order or refusal', 'The modify that waited has no effect; `code` states why.'],
  'batch.voided': [
    'Batch',
    'The close could not be committed on chain: no auction was held, the orders rest.',
  ],
  'fill.matched': ['Fill', 'An auction filled the order; the notes are named, not yet on chain.'],
  'fill.submitted': ['Fill', 'The settlement transaction was sent.'],
  'fill.confirmed': ['Fill', 'The cluster has confirmed it; a reorg is still possible.'],
  'fill.finalized': ['Fill', 'It is final, and `/tree/inclusion` knows its notes.'],
  'fill.voided': ['Fill', 'The fill never settles: its notes do not exist, the note it used is unspent.'],
  'withdrawal.accepted': ['Withdrawal', 'The request is durable; its note is reserved.'],
  'withdrawal.submitted': ['Withdrawal', 'The batch that spends the note was sent.'],
  'withdrawal.confirmed': ['Withdrawal', 'That batch is confirmed.'],
  'withdrawal.finalized': ['Withdrawal', 'That batch is final: the amount is in the payout queue.'],
  'withdrawal.paid': ['Withdrawal', 'The payment is final.'],
  'withdrawal.refunded': [
    'Withdrawal',
    'The destination cannot receive it: `refund_commitment` is a new note.',
  ],
  'withdrawal.voided': ['Withdrawal', 'It never settles; the note is unspent.'],
  'reshape.accepted': ['Reshape', 'The request is durable; its notes are reserved.'],
  'reshape.submitted': ['Reshape', 'The batch that makes the notes was sent.'],
  'reshape.confirmed': ['Reshape', 'That batch is confirmed.'],
  'reshape.finalized': ['Reshape', 'It is final, and `/tree/inclusion` knows its notes.'],
  'reshape.voided': ['Reshape', 'It never settles; the inputs are unspent.'],
  'note.created': [
    'Note',
    'The venue accepts a note of a fill, withdrawal, reshape or refund as collateral.',
  ],
  'note.exited': ['Note', 'An exit on chain was requested for the note: it backs nothing any more.'],
  'exit.requested': ['Exit', 'The request is final on chain; the venue serves it before `deadline`.'],
  'exit.served': ['Exit', 'The batch that serves it is confirmed; the payment is open.'],
  'exit.paid': ['Exit', 'The payment is final.'],
  'exit.refunded': ['Exit', 'The destination cannot receive it: `refund_commitment` is a new note.'],
  'account.changed': ['Account', 'Credential, login, key or admission changed; `change` names which.'],
}
