import { Refusal } from '../../protocol/refusals'
import { endpoint } from '../../server/edge/endpoint'

/** GET /swagger/streams: the AsyncAPI document of every socket. */
export default endpoint(
  {
    summary: 'AsyncAPI document',
    tag: 'operations',
    answer: { status: 200, text: 'application/json' },
    refuses: ['route_unknown'],
  },
  ({ documents }) => {
    if (documents === undefined) throw new Refusal('route_unknown')
    return { content_type: 'application/json', body: documents.streams }
  },
)
