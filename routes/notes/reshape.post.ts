import { ReshapeRequest, ReshapeResult } from '../../protocol/wire/trading'
import { COST, endpoint } from '../../server/edge/endpoint'
import { RESHAPE_REFUSALS } from '../../server/edge/problem'

/** POST /notes/reshape: merges or splits own notes of one key and mint in a coming settlement batch. */
export default endpoint(
  {
    summary: 'Merge or split notes',
    description: '1 to 4 notes in, 1 to 4 out, not 1 to 1, no zero amount, the same sum.',
    tag: 'notes',
    bearer: true,
    cost: COST.reshape,
    body: ReshapeRequest,
    answer: { status: 202, body: ReshapeResult },
    refuses: RESHAPE_REFUSALS,
  },
  ({ venue, account_id, body }) => venue.reshape(account_id, body),
)
