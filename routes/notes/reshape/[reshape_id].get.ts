import { COST, endpoint } from '../../../server/edge/endpoint'
import { Reshape } from '../../../server/shapes/notes'
import { CommandId, exact } from '../../../server/shapes/wire'

/** GET /notes/reshape/{reshape_id}: an own reshape and its stage. */
export default endpoint(
  {
    summary: 'Read one reshape',
    tag: 'notes',
    bearer: true,
    cost: COST.read,
    params: exact({ reshape_id: CommandId }),
    answer: { status: 200, body: Reshape },
    refuses: ['not_owner', 'reshape_unknown'],
  },
  ({ venue, account_id, params }) => venue.own.reshape(account_id, params.reshape_id),
)
