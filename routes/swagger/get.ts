import { Refusal } from '../../protocol/refusals'
import { endpoint } from '../../server/edge/endpoint'
import { REFERENCE_POLICY } from '../../server/edge/headers'

/** GET /swagger: the reference page, rendered on the server and without script. */
export default endpoint(
  {
    summary: 'Reference page',
    tag: 'operations',
    answer: { status: 200, text: 'text/html' },
    refuses: ['route_unknown'],
  },
  ({ documents }) => {
    if (documents === undefined) throw new Refusal('route_unknown')
    return {
      content_type: 'text/html; charset=utf-8',
      body: documents.html,
      headers: {
        'content-security-policy': REFERENCE_POLICY,
        'referrer-policy': 'no-referrer',
      },
    }
  },
)
