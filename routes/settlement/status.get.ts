import { Refusal } from '../../protocol/refusals'
import { COST, endpoint, t } from '../../server/edge/endpoint'
import { Fill, FillStage } from '../../server/shapes/orders'
import { SettlementHealth } from '../../server/shapes/venue'
import { Count, exact, OrderId, QueryInteger, Slot, TransactionSignature } from '../../server/shapes/wire'

const BatchStage = exact({ batch: Count, signature: TransactionSignature, slot: Slot, stage: FillStage })
const OrderStages = exact({ order_id: OrderId, fills: t.Array(Fill) })

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
    query: exact({ batch: t.Optional(QueryInteger('Settlement batch.')), order_id: t.Optional(OrderId) }),
    answer: { status: 200, body: t.Union([SettlementHealth, BatchStage, OrderStages]) },
    refuses: ['batch_unknown', 'order_unknown', 'not_owner'],
  },
  ({ venue, account_id, query: { batch, order_id } }) => {
    if (batch !== undefined && order_id !== undefined)
      throw new Refusal('field_invalid', { field: 'order_id' })
    if (batch !== undefined) return venue.settlementBatch(Number(batch))
    if (order_id !== undefined) return venue.settlementOfOrder(account_id, order_id)
    return venue.settlementHealth()
  },
)
