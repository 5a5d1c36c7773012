import { Leader } from '../../protocol/wire/public'
import { endpoint } from '../../server/edge/endpoint'
import { NONCE_QUERY, takeQuote } from '../../server/edge/rate'

/**
 * GET /attestation/leader: what `/info` and `/attestation` of the leading node answer, which a client judges beside those of the node that
 * serves it: the leading node signs receipts.
 */
export default endpoint(
  {
    summary: 'Identity and attestation of the leading node',
    description:
      '`/info` and `/attestation` of the node that leads, with the nonce of this caller. A node that follows, whose own `epoch` ' +
      'is 0, asks it; the node that leads answers for itself. Limits and nonce are those of `/attestation`.',
    tag: 'trust',
    bearer: 'optional',
    query: NONCE_QUERY,
    answer: { status: 200, body: Leader },
    refuses: ['rate_limited', 'quote_busy', 'enclave_unavailable', 'lease_lost'],
  },
  (call) => {
    takeQuote(call)
    return call.leader(call.query.reportData)
  },
)
