import { Refusal } from '../../protocol/refusals'
import { SettlementHealth } from '../../protocol/wire/public'
import { OrderStages, SettlementBatchStage } from '../../protocol/wire/trading'
import { asText, exact, OrderId, QueryInteger, t } from '../../protocol/wire/values'
import { COST, endpoint } from '../../server/edge/endpoint'

/** GET /settlement/status: health and the last landed batch, one landed batch, or the stages of an own order. */
export default endpoint(
  {
    summary: 'Settlement status',
    description:
      'Without a query the health of settlement; `batch` asks for one landed batch, `order_id` for the fills of an own ' +
      'order with their stages. Not both.',
    tag: 'settlement',
    bearer: true,
    cost: COST.read,
    query: exact({
      batch: t.Optional(QueryInteger('Settlement batch.')),
      order_id: t.Optional(asText(OrderId)),
    }),
    answer: { status: 200, body: t.Union([SettlementHealth, SettlementBatchStage, OrderStages]) },
    refuses: ['batch_unknown', 'order_unknown', 'not_owner'],
  },
  ({ venue, account_id, query: { batch, order_id } }) => {
    if (batch !== undefined && order_id !== undefined)
      throw new Refusal('field_invalid', { field: 'order_id' })
    if (batch !== undefined) return venue.settlementBatch(batch)
    if (order_id !== undefined) return venue.settlementOfOrder(account_id, order_id)
    return venue.settlementHealth()
  },
)
