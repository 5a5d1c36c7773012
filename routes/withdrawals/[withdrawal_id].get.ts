import { Withdrawal } from '../../protocol/wire/trading'
import { asText, CommandId, exact } from '../../protocol/wire/values'
import { COST, endpoint } from '../../server/edge/endpoint'

/** GET /withdrawals/{withdrawal_id}: an own withdrawal and its stage. */
export default endpoint(
  {
    summary: 'Read one withdrawal',
    tag: 'notes',
    bearer: true,
    cost: COST.read,
    params: exact({ withdrawal_id: asText(CommandId) }),
    answer: { status: 200, body: Withdrawal },
    refuses: ['not_owner', 'withdrawal_unknown'],
  },
  ({ venue, account_id, params }) => venue.own.withdrawal(account_id, params.withdrawal_id),
)
