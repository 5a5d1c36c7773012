import { CancelAllBody, CancelAllResult } from '../../protocol/wire/trading'
import { COST, endpoint } from '../../server/edge/endpoint'
import { CANCEL_ALL_REFUSALS } from '../../server/edge/problem'

/** POST /orders/cancel-all: cancels every live order of a key, or of a key and symbol, by that key's signature. */
export default endpoint(
  {
    summary: 'Cancel all orders of trading keys',
    description:
      'One signed body, or an array of up to 64 of them. Each further body costs as much as the first.',
    tag: 'orders',
    bearer: true,
    cost: COST.cancel,
    body: CancelAllBody,
    answer: { status: 200, body: CancelAllResult },
    refuses: CANCEL_ALL_REFUSALS,
  },
  ({ venue, account_id, session, body }) => {
    const requests = Array.isArray(body) ? body : [body]
    // The first is paid before the body is read; each further one adds a signature to verify.
    if (requests.length > 1) venue.takeLimit(session, COST.cancel * (requests.length - 1), 'command')
    return venue.cancelAll(account_id, requests)
  },
)
