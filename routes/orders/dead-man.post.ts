import { DeadManRequest, DeadManResult } from '../../protocol/wire/trading'
import { COST, endpoint } from '../../server/edge/endpoint'
import { DEAD_MAN_REFUSALS } from '../../server/edge/problem'

/** POST /orders/dead-man: cancels a key's orders unless renewed within `timeout_slots`; 0 disarms. */
export default endpoint(
  {
    summary: 'Arm or disarm the dead-man timer',
    description: 'Counts slots, so it does not fire while the chain stalls. `timeout_slots` 0 disarms.',
    tag: 'orders',
    bearer: true,
    cost: COST.cancel,
    body: DeadManRequest,
    answer: { status: 200, body: DeadManResult },
    refuses: DEAD_MAN_REFUSALS,
  },
  ({ venue, account_id, body }) => venue.deadMan(account_id, body),
)
