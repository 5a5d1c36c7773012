import { PAGE_LEAVES_DEFAULT, PAGE_LEAVES_MAX } from '../../protocol/limits'
import { TreeLeaves } from '../../protocol/wire/public'
import { exact, QueryInteger, t } from '../../protocol/wire/values'
import { COST, endpoint } from '../../server/edge/endpoint'

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
        QueryInteger(
          `Leaves per answer, 1 to ${PAGE_LEAVES_MAX}; ${PAGE_LEAVES_DEFAULT} if absent.`,
          1,
          PAGE_LEAVES_MAX,
        ),
      ),
    }),
    answer: { status: 200, body: TreeLeaves },
  },
  ({ venue, query, session }) =>
    venue.treeLeaves(query.from ?? 0, query.limit ?? PAGE_LEAVES_DEFAULT, session),
)
