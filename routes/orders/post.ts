import { PlaceRequest, PlaceResult } from '../../protocol/wire/trading'
import { placedText } from '../../server/edge/answer_texts'
import { COST, endpoint } from '../../server/edge/endpoint'
import { PLACE_REFUSALS } from '../../server/edge/problem'

/** POST /orders: one signed order. Accepted means journaled and waiting for its batch, not filled. */
export default endpoint(
  {
    summary: 'Place an order',
    description:
      'Accepted means durable and part of a coming batch auction, not filled. An identical resend answers ' +
      '`order_exists` with the original result and `applied: "yes"`; of receipts only the newest 65,536 since the ' +
      'start are kept for that.',
    tag: 'orders',
    bearer: true,
    cost: COST.place,
    body: PlaceRequest,
    answer: { status: 202, body: PlaceResult, writes: placedText },
    refuses: PLACE_REFUSALS,
  },
  ({ venue, account_id, body }) => venue.place(account_id, body),
)
