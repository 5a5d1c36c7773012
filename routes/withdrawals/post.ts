import { WithdrawalRequest, WithdrawalResult } from '../../protocol/wire/trading'
import { COST, endpoint } from '../../server/edge/endpoint'
import { WITHDRAWAL_REFUSALS } from '../../server/edge/problem'

/** POST /withdrawals: locks a note and pays it out in a coming settlement batch. */
export default endpoint(
  {
    summary: 'Withdraw from a note',
    description:
      'The destination receives `amount`; the note must hold it and the fee; the rest comes back as change.',
    tag: 'notes',
    bearer: true,
    cost: COST.withdraw,
    body: WithdrawalRequest,
    answer: { status: 202, body: WithdrawalResult },
    refuses: WITHDRAWAL_REFUSALS,
  },
  ({ venue, account_id, body }) => venue.withdraw(account_id, body),
)
