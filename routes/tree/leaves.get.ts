import { PAGE_LEAVES_MAX } from '../../protocol/limits'
import { COST, endpoint, integerOf, t } from '../../server/edge/endpoint'
import { PAGE_LEAVES_DEFAULT } from '../../server/limits'
import { TreeLeaves } from '../../server/shapes/notes'
import { exact, QueryInteger, QueryLimit } from '../../server/shapes/wire'

/** GET /tree/leaves: a range of finalized leaves, from which a wallet builds its own proofs. */
export default endpoint(
  {
    summary: 'Leaves of the note tree',
    tag: 'notes',
    bearer: true,
    cost: COST.read,
    query: exact({
      from: t.Optional(QueryInteger('Index of the first leaf; 0 if absent.')),
      limit: t.Optional(
        QueryLimit(
          PAGE_LEAVES_MAX,
          `Leaves per answer, 1 to ${PAGE_LEAVES_MAX}; ${PAGE_LEAVES_DEFAULT} if absent.`,
        ),
      ),
    }),
    answer: { status: 200, body: TreeLeaves },
  },
  ({ venue, query }) =>
    venue.treeLeaves(integerOf(query.from, 0), integerOf(query.limit, PAGE_LEAVES_DEFAULT)),
)
