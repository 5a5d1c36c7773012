/** Defines the schemas of the account's numbered events and of list pages. */

import { PAGE_ITEMS_MAX } from '../../protocol/limits'
import { PAGE_ITEMS_DEFAULT } from '../limits'
import { NoteEvent, Reshape, Withdrawal } from './notes'
import { Fill, Order } from './orders'
import { exact, Milliseconds, QueryInteger, QueryLimit, Seq, Slot, type TSchema, t } from './wire'

export const EventKind = t.Union([
  t.Literal('order.accepted'),
  t.Literal('order.partially_filled'),
  t.Literal('order.filled'),
  t.Literal('order.cancelled'),
  t.Literal('order.expired'),
  t.Literal('order.replaced'),
  t.Literal('fill.matched'),
  t.Literal('fill.submitted'),
  t.Literal('fill.confirmed'),
  t.Literal('fill.finalized'),
  t.Literal('fill.voided'),
  t.Literal('withdrawal.accepted'),
  t.Literal('withdrawal.submitted'),
  t.Literal('withdrawal.confirmed'),
  t.Literal('withdrawal.finalized'),
  t.Literal('withdrawal.refunded'),
  t.Literal('withdrawal.voided'),
  t.Literal('reshape.accepted'),
  t.Literal('reshape.submitted'),
  t.Literal('reshape.confirmed'),
  t.Literal('reshape.finalized'),
  t.Literal('reshape.voided'),
  t.Literal('note.created'),
  t.Literal('note.exited'),
])
export const AccountEvent = exact({
  seq: Seq,
  kind: EventKind,
  slot: Slot,
  unix_ms: Milliseconds,
  data: t.Union([Order, Fill, Withdrawal, Reshape, NoteEvent]),
})

export const page = <S extends TSchema>(item: S) =>
  exact({
    items: t.Array(item),
    next_after: t.Union([Seq, t.Null()], {
      description: 'Pass as `after` for the next page; null at the end.',
    }),
  })
export const pageFields = {
  after: t.Optional(
    QueryInteger('What follows this place: `next_after` of the page before; 0 or absent for the first.'),
  ),
  limit: t.Optional(
    QueryLimit(PAGE_ITEMS_MAX, `Items per page, 1 to ${PAGE_ITEMS_MAX}; ${PAGE_ITEMS_DEFAULT} if absent.`),
  ),
}
export const PageQuery = exact(pageFields)
