import { stream } from '../../server/edge/endpoint'
import { COMMON_OPS } from '../../server/sockets/commands'

/** /ws/orders: pushes the events of the account's orders. */
export default stream({
  name: 'orders',
  summary: 'Order events of the account',
  description: 'Pushes the events whose kind begins with `order.`; takes only `ping` and `auth.refresh`.',
  access: 'read',
  kinds: (kind) => kind.startsWith('order.'),
  ops: COMMON_OPS,
  snapshot: true,
})
