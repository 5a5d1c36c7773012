import { COST, endpoint } from '../../server/edge/endpoint'
import { Order, OrderParams } from '../../server/shapes/orders'

/** GET /orders/{order_id}: an own order with its fills, live or final. */
export default endpoint(
  {
    summary: 'Read one order',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    params: OrderParams,
    answer: { status: 200, body: Order },
    refuses: ['not_owner', 'order_unknown'],
  },
  ({ venue, account_id, params }) => venue.own.order(account_id, params.order_id),
)
