import { Refusal } from '../../protocol/refusals'
import { endpoint } from '../../server/edge/endpoint'

/** GET /swagger/style.css: the only other file the reference page loads. */
export default endpoint(
  {
    summary: 'Style of the reference page',
    tag: 'operations',
    answer: { status: 200, text: 'text/css' },
    refuses: ['route_unknown'],
    cache: 'public, max-age=3600',
  },
  ({ documents }) => {
    if (documents === undefined) throw new Refusal('route_unknown')
    return { content_type: 'text/css; charset=utf-8', body: documents.css }
  },
)
