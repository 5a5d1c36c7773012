import { Nonces } from '../protocol/wire/trading'
import { asText, exact, PublicKey } from '../protocol/wire/values'
import { COST, endpoint } from '../server/edge/endpoint'

/** GET /nonces: the last nonces of an own trading key; "0" where none was used. */
export default endpoint(
  {
    summary: 'Last nonces of a trading key',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    query: exact({ trading_key: asText(PublicKey) }),
    answer: { status: 200, body: Nonces },
    refuses: ['key_bound'],
  },
  ({ venue, account_id, query }) => venue.nonces(account_id, query.trading_key),
)
