import { Refusal } from '../../../protocol/refusals'
import { exact, t } from '../../../protocol/wire/values'
import { endpoint } from '../../../server/edge/endpoint'
import { REFERENCE_POLICY } from '../../../server/edge/headers'
import { PATH_NAME_LENGTH_MAX } from '../../../server/limits'

/** GET /swagger/docs/{page}: a document as a page without script; with `.md` after its name, as its text. */
export default endpoint(
  {
    summary: 'Document',
    description:
      'A page of the documents; with `.md` after its name its Markdown. `/swagger/llms.txt` lists them.',
    tag: 'operations',
    params: exact({ page: t.String({ minLength: 1, maxLength: PATH_NAME_LENGTH_MAX }) }),
    answer: { status: 200, text: ['text/html', 'text/markdown'] },
    refuses: ['route_unknown'],
  },
  ({ documents, params }) => {
    const file = documents?.files.get(params.page)
    if (file === undefined) throw new Refusal('route_unknown')
    return {
      ...file,
      headers: { 'content-security-policy': REFERENCE_POLICY, 'referrer-policy': 'no-referrer' },
    }
  },
)
