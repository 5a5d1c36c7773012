import { CancelPending, CancelRequest, CancelResult, OrderPath } from '../../protocol/wire/trading'
import { COST, endpoint } from '../../server/edge/endpoint'
import { CANCEL_REFUSALS } from '../../server/edge/problem'

/** DELETE /orders/{order_id}: cancels one live order by the signature of its trading key. */
export default endpoint(
  {
    summary: 'Cancel an order',
    description:
      'The signed body travels with the DELETE; clients that drop it use POST /orders/{order_id}/cancel. ' +
      'An order of a closed batch is cancelled after the decision of the batch: the answer waits for it, then is 202.',
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
