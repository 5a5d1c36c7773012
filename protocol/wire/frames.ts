/** Describes the frames that a socket sends beside replies and errors, whose members are those of the REST call. */
import { AccountEvent, Order } from './trading'
import { exact, Milliseconds, oneOf, Seq, Slot, type Static, t } from './values'

const frame = <const Name extends string>(type: Name) => ({ type: t.Literal(type) })

export const HelloFrame = exact({
  ...frame('hello'),
  stream: t.String(),
  account_id: t.String(),
  seq_first: Seq,
  seq_last: Seq,
  heartbeat_ms: Milliseconds,
  slot: Slot,
  unix_ms: Milliseconds,
})
export const StatusFrame = exact({
  ...frame('status'),
  ready: t.Boolean(),
  reasons: t.Array(t.String()),
  reopens_slot: t.Optional(Slot),
})
export const SnapshotFrame = exact({ ...frame('snapshot'), seq: Seq, orders: t.Array(Order) })
export const GapFrame = exact({ ...frame('gap'), seq_from: Seq, seq_to: Seq })
export const HeartbeatFrame = exact({ ...frame('heartbeat'), seq: Seq, slot: Slot, unix_ms: Milliseconds })
export const WarningFrame = exact({
  ...frame('warning'),
  reason: oneOf(['token_expiring', 'leader_changed']),
  expires_in_ms: Milliseconds,
})
export const ByeFrame = exact({
  ...frame('bye'),
  reason: oneOf(['upgrade', 'restart']),
  retry_after_ms: Milliseconds,
})
export const EventFrame = exact({ ...frame('event'), ...AccountEvent.properties })

/** Frames that the venue sends of itself. */
export type PushedFrame = Static<
  | typeof HelloFrame
  | typeof StatusFrame
  | typeof SnapshotFrame
  | typeof GapFrame
  | typeof HeartbeatFrame
  | typeof WarningFrame
  | typeof ByeFrame
>
export const ReplyFrame = exact({ ...frame('reply'), id: t.String(), result: t.Unknown() })
/** The members of a problem document follow. */
export const ErrorFrame = t.Object({ ...frame('error'), id: t.Optional(t.String()), code: t.String() })
