import { Leader } from '../../protocol/wire/public'
import { exact } from '../../protocol/wire/values'
import { endpoint } from '../../server/edge/endpoint'
import { Nonce } from '../../server/edge/rate'

/**
 * GET /attestation/leader: the answers of the leading node to `/info` and `/attestation`, which a client judges together with
 * those of the node that serves it: the leading node signs receipts.
 */
export default endpoint(
  {
    summary: 'Identity and attestation of the leading node',
    description:
      '`/info` and `/attestation` of the node that leads, with the nonce of this caller. A node that follows, whose own `epoch` ' +
      'is 0, asks it; the node that leads answers for itself. `nonce` is as in `/attestation`.',
    tag: 'trust',
    query: exact({ nonce: Nonce('It is in a quote that others share.') }),
    answer: { status: 200, body: Leader },
    refuses: ['quote_busy', 'enclave_unavailable', 'lease_lost'],
  },
  (call) => call.leader(call.query.nonce),
)
