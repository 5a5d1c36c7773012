import { stream } from '../../server/edge/endpoint'
import { COMMON_OPS } from '../../server/sockets/commands'

/** /ws/fills: pushes the account's fills and their settlement stages. */
export default stream({
  name: 'fills',
  summary: 'Fill events of the account',
  description: 'Pushes the events whose kind begins with `fill.`; takes only `ping` and `auth.refresh`.',
  access: 'read',
  kinds: (kind) => kind.startsWith('fill.'),
  ops: COMMON_OPS,
  snapshot: false,
})
