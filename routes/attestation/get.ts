import { Refusal } from '../../protocol/refusals'
import { Attestation } from '../../protocol/wire/public'
import { exact } from '../../protocol/wire/values'
import { endpoint } from '../../server/edge/endpoint'
import { Nonce, takeQuote } from '../../server/edge/rate'

/** GET /attestation: the hardware quote, the event log to replay against it, and the binding of the served TLS key. */
export default endpoint(
  {
    summary: 'Attestation quote',
    description:
      '`report_data` is a nonce, then the SHA-256 of the raw `tee_pubkey`. Callers with `nonce` share a quote, which begins ' +
      'after they asked: `nonce_path` leads from theirs to the one in it. `reportData` is in a ' +
      'quote of this caller alone, so it is limited: a token is optional, one that is not valid counts as none, and callers ' +
      'with one have a limit of their own. Without both the first half is zero and the answer is cached. `enclave` is ' +
      '`development` where no hardware makes the quotes.',
    tag: 'trust',
    bearer: 'optional',
    query: exact({
      nonce: Nonce('It is in a quote that others share.'),
      reportData: Nonce('It is in the quote itself.'),
    }),
    answer: { status: 200, body: Attestation },
    refuses: ['rate_limited', 'quote_busy', 'enclave_unavailable'],
  },
  (call) => {
    const { nonce, reportData } = call.query
    if (reportData === undefined) return call.attestation(nonce)
    if (nonce !== undefined) throw new Refusal('field_invalid', { field: 'nonce' })
    takeQuote(call)
    return call.enclave.attestation(reportData)
  },
)
