import { stream } from '../../server/edge/endpoint'
import { TRADING_OPS } from '../../server/sockets/commands'

/** /ws/trading: takes commands, answers each, and pushes every event of the account in one order. */
export default stream({
  name: 'trading',
  summary: 'Commands and all events of the account',
  description:
    'Takes `order.place`, `order.cancel`, `order.modify`, `order.cancel_all`, `dead_man`, `cancel_on_disconnect`, ' +
    '`auth.refresh` and `ping`; each gets one `reply` or `error` with its `id`, in order.',
  kinds: () => true,
  ops: TRADING_OPS,
  snapshot: true,
})
