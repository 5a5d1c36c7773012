import { CheckRequest } from '../../protocol/wire/trading'
import { exact, t } from '../../protocol/wire/values'
import { COST, endpoint } from '../../server/edge/endpoint'
import { CHECK_REFUSALS } from '../../server/edge/problem'

/** POST /orders/check: runs the checks of a place that depend on no hidden state; books nothing. */
export default endpoint(
  {
    summary: 'Check an order without placing it',
    description: 'A place body without `signature`. Says nothing about other orders, notes or nonces.',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    reads: true,
    body: CheckRequest,
    answer: { status: 200, body: exact({ ok: t.Literal(true) }) },
    refuses: CHECK_REFUSALS,
  },
  ({ venue, account_id, body }) => {
    venue.check(account_id, body)
    return { ok: true as const }
  },
)
