import { Refusal } from '../../protocol/refusals'
import { COST, endpoint, t } from '../../server/edge/endpoint'
import { TreeInclusion } from '../../server/shapes/notes'
import { exact, Hash, QueryInteger } from '../../server/shapes/wire'

/** GET /tree/inclusion: the siblings on the path from one leaf to the root. */
export default endpoint(
  {
    summary: 'Inclusion proof of a note',
    description: 'Exactly one of `commitment` and `leaf_index` is given.',
    tag: 'notes',
    bearer: true,
    cost: COST.read,
    query: exact({
      commitment: t.Optional(Hash),
      leaf_index: t.Optional(QueryInteger('Index of the leaf.')),
    }),
    answer: { status: 200, body: TreeInclusion },
    refuses: ['field_element_invalid', 'leaf_unknown'],
  },
  ({ venue, query: { commitment, leaf_index } }) => {
    if (commitment !== undefined && leaf_index !== undefined) {
      throw new Refusal('field_invalid', { field: 'leaf_index' })
    }
    if (commitment !== undefined) return venue.treeInclusion({ commitment })
    if (leaf_index !== undefined) return venue.treeInclusion({ leaf_index: Number(leaf_index) })
    throw new Refusal('field_missing', { field: 'commitment' })
  },
)
