import { Refusal } from '../../protocol/refusals'
import { endpoint } from '../../server/edge/endpoint'

/** GET /swagger/json: the OpenAPI document of every endpoint. */
export default endpoint(
  {
    summary: 'OpenAPI document',
    tag: 'operations',
    answer: { status: 200, text: 'application/json' },
    refuses: ['route_unknown'],
  },
  ({ documents }) => {
    if (documents === undefined) throw new Refusal('route_unknown')
    return { content_type: 'application/json', body: documents.json }
  },
)
