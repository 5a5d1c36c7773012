import { RebindRequest, RebindResult } from '../../protocol/wire/accounts'
import { COST, endpoint } from '../../server/edge/endpoint'
import { UNRELEASED } from '../../server/edge/problem'

/** POST /account/rebind: moves a trading key to the caller's account, for an account key that was lost. */
export default endpoint(
  {
    summary: 'Move a trading key to this account',
    description:
      'Signed with the trading key. Its orders are cancelled (`rebound`); `commit_undecided` while one of them is in a ' +
      'closed batch: send the same body again.',
    tag: 'account',
    bearer: true,
    cost: COST.cancel,
    body: RebindRequest,
    answer: { status: 200, body: RebindResult },
    refuses: ['signature_invalid', 'nonce_stale', 'account_key_limit', 'commit_undecided', ...UNRELEASED],
  },
  ({ venue, account_id, body }) => venue.rebind(account_id, body),
)
