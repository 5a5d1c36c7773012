import { TreeRoot } from '../../protocol/wire/public'
import { endpoint } from '../../server/edge/endpoint'

/** GET /tree/root: the finalized tree of note commitments. */
export default endpoint(
  { summary: 'Root of the note tree', tag: 'notes', answer: { status: 200, body: TreeRoot } },
  ({ venue }) => venue.treeRoot(),
)
