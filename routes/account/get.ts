import { AccountView } from '../../protocol/wire/accounts'
import { COST, endpoint } from '../../server/edge/endpoint'
import { UNRELEASED } from '../../server/edge/problem'

/** GET /account: the caller's account with its limits, credentials, trading keys and newest changes. */
export default endpoint(
  {
    summary: 'Read the own account',
    description:
      'Limits as the operator set them, credentials as the account key signed them, and the newest changes: acts of the ' +
      'operator, credentials and logins. Each is an `account.changed` event.',
    tag: 'account',
    bearer: true,
    cost: COST.read,
    answer: { status: 200, body: AccountView },
    refuses: UNRELEASED,
  },
  ({ venue, account_id }) => venue.account(account_id),
)
