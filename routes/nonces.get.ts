import { COST, endpoint } from '../server/edge/endpoint'
import { exact, PublicKey, U64 } from '../server/shapes/wire'

/** GET /nonces: the last nonces of an own trading key; "0" where none was used. */
export default endpoint(
  {
    summary: 'Last nonces of a trading key',
    tag: 'orders',
    bearer: true,
    cost: COST.read,
    query: exact({ trading_key: PublicKey }),
    answer: { status: 200, body: exact({ place_nonce: U64, cancel_nonce: U64 }) },
    refuses: ['key_bound'],
  },
  ({ venue, account_id, query }) => venue.nonces(account_id, query.trading_key),
)
