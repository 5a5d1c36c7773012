import { CancelPending, CancelRequest, CancelResult, OrderPath } from '../../../protocol/wire/trading'
import { COST, endpoint } from '../../../server/edge/endpoint'
import { CANCEL_REFUSALS } from '../../../server/edge/problem'

/** POST /orders/{order_id}/cancel: the same as DELETE, for clients that drop the body of a DELETE. */
export default endpoint(
  {
    summary: 'Cancel an order (body in a POST)',
    tag: 'orders',
    bearer: true,
    cost: COST.cancel,
    params: OrderPath,
    body: CancelRequest,
    answer: { status: 200, body: CancelResult, pending: CancelPending },
    refuses: CANCEL_REFUSALS,
  },
  ({ venue, account_id, params, body }) => venue.cancel(account_id, { ...params, ...body }),
)
