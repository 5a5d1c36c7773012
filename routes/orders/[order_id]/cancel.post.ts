import { COST, endpoint } from '../../_endpoint'
import { CancelRequest, CancelResult, OrderParams } from '../../_order_shapes'
import { CANCEL_REFUSALS } from '../../_refusals'

/** POST /orders/{order_id}/cancel: the same as DELETE, for clients that drop the body of a DELETE. */
export default endpoint(
  {
    summary: 'Cancel an order (body in a POST)',
    tag: 'orders',
    bearer: true,
    cost: COST.cancel,
    params: OrderParams,
    body: CancelRequest,
    answer: { status: 200, body: CancelResult },
    refuses: CANCEL_REFUSALS,
  },
  ({ venue, account_id, params, body }) => venue.cancel(account_id, params.order_id, body),
)
