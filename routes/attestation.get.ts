import { Attestation } from '../protocol/wire/public'
import { exact, t } from '../protocol/wire/values'
import { COST, endpoint } from '../server/edge/endpoint'

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
    query: exact({
      reportData: t.Optional(
        t.String({
          pattern: '^[0-9a-f]{64}$',
          description: 'Nonce chosen by the caller, 32 bytes of lowercase hex.',
        }),
      ),
    }),
    answer: { status: 200, body: Attestation },
    refuses: ['rate_limited', 'quote_busy', 'enclave_unavailable'],
  },
  ({ enclave, venue, quotes, session, query }) => {
    const nonce = query.reportData
    if (nonce === undefined) return enclave.attestation()
    if (session === undefined) quotes.anonymous.take(1)
    else {
      venue.takeLimit(session, COST.place)
      quotes.bearer.take(1)
    }
    return enclave.attestation(nonce)
  },
)
