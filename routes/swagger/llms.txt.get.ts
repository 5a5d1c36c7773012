import { Refusal } from '../../protocol/refusals'
import { endpoint } from '../../server/edge/endpoint'

/** GET /swagger/llms.txt: an index of the documents and operations for programs that read. */
export default endpoint(
  {
    summary: 'Index of the documents',
    tag: 'operations',
    answer: { status: 200, text: 'text/plain' },
    refuses: ['route_unknown'],
  },
  ({ documents }) => {
    if (documents === undefined) throw new Refusal('route_unknown')
    return { content_type: 'text/plain; charset=utf-8', body: documents.index }
  },
)
