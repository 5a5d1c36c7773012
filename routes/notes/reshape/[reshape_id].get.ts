import { Reshape } from '../../../protocol/wire/trading'
import { asText, CommandId, exact } from '../../../protocol/wire/values'
import { COST, endpoint } from '../../../server/edge/endpoint'

/** GET /notes/reshape/{reshape_id}: an own reshape and its stage. */
export default endpoint(
  {
    summary: 'Read one reshape',
    tag: 'notes',
    bearer: true,
    cost: COST.read,
    params: exact({ reshape_id: asText(CommandId) }),
    answer: { status: 200, body: Reshape },
    refuses: ['not_owner', 'reshape_unknown'],
  },
  ({ venue, account_id, params }) => venue.own.reshape(account_id, params.reshape_id),
)
