import { endpoint } from '../_endpoint'
import { TreeRoot } from '../_note_shapes'

/** GET /tree/root: the finalized tree of note commitments. */
export default endpoint(
  { summary: 'Root of the note tree', tag: 'notes', answer: { status: 200, body: TreeRoot } },
  ({ venue }) => venue.treeRoot(),
)
