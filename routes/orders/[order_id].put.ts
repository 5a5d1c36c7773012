import { ModifyRequest, ModifyResult, OrderPath } from '../../protocol/wire/trading'
import { COST, endpoint } from '../../server/edge/endpoint'
import { MODIFY_REFUSALS } from '../../server/edge/problem'

/** PUT /orders/{order_id}: cancels the order and books its replacement; both or neither take effect. */
export default endpoint(
  {
    summary: 'Modify an order',
    description:
      'A cancel signature for the old order and a place signature for the new one, by the same trading key. ' +
      'The replacement is a new order with its own id. An order of a closed batch is replaced after the decision of the batch.',
    tag: 'orders',
    bearer: true,
    cost: COST.modify,
    params: OrderPath,
    body: ModifyRequest,
    answer: { status: 202, body: ModifyResult },
    refuses: MODIFY_REFUSALS,
  },
  ({ venue, account_id, params, body }) => venue.modify(account_id, { ...params, ...body }),
)
