import { Attestation } from '../../protocol/wire/public'
import { endpoint } from '../../server/edge/endpoint'
import { NONCE_QUERY, takeQuote } from '../../server/edge/rate'

/**
 * GET /attestation: the hardware quote, the event log to replay against it, and the binding of the served TLS key.
 * Only quotes with a nonce cost hardware time, so only they are limited.
 */
export default endpoint(
  {
    summary: 'Attestation quote',
    description:
      '`report_data` is the nonce, then the SHA-256 of the raw `tee_pubkey`; without a nonce its first half is zero ' +
      'and the answer is cached. `enclave` is `development` where no hardware makes the quotes. A token is optional, ' +
      'and one that is not valid counts as none: callers with one have a limit of their own.',
    tag: 'trust',
    bearer: 'optional',
    query: NONCE_QUERY,
    answer: { status: 200, body: Attestation },
    refuses: ['rate_limited', 'quote_busy', 'enclave_unavailable'],
  },
  (call) => {
    takeQuote(call)
    return call.enclave.attestation(call.query.reportData)
  },
)
