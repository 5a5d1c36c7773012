import { Refusal } from '../../protocol/refusals'
import { TreeInclusion } from '../../protocol/wire/public'
import { exact, FieldElement, QueryInteger, t } from '../../protocol/wire/values'
import { COST, endpoint } from '../../server/edge/endpoint'

/** GET /tree/inclusion: the siblings on the path from one leaf to the root. */
export default endpoint(
  {
    summary: 'Inclusion proof of a note',
    description: 'Exactly one of `commitment` and `leaf_index` is given.',
    tag: 'notes',
    bearer: true,
    cost: COST.read,
    query: exact({
      commitment: t.Optional(FieldElement),
      leaf_index: t.Optional(QueryInteger('Index of the leaf.')),
    }),
    answer: { status: 200, body: TreeInclusion },
    refuses: ['leaf_unknown'],
  },
  ({ venue, session, query: { commitment, leaf_index } }) => {
    if (commitment !== undefined && leaf_index !== undefined) {
      throw new Refusal('field_invalid', { field: 'leaf_index' })
    }
    const leaf = commitment ?? leaf_index
    if (leaf === undefined) throw new Refusal('field_missing', { field: 'commitment' })
    return venue.treeInclusion(leaf, session)
  },
)
