import { PAGE_ITEMS_DEFAULT } from '../../../protocol/limits'
import { STATISTICS_PERIODS, Statistics } from '../../../protocol/wire/public'
import { pageFields } from '../../../protocol/wire/trading'
import { exact, oneOf, t } from '../../../protocol/wire/values'
import { COST, endpoint } from '../../../server/edge/endpoint'
import { PATH_NAME_LENGTH_MAX } from '../../../server/limits'

/** GET /instruments/{symbol}/statistics: late, signed rows of an hour or a UTC day, as JSON or CSV. */
export default endpoint(
  {
    summary: 'Statistics of an instrument',
    description:
      'Rows of an hour or a UTC day, oldest first: prices in quote units per whole base token, volume in base units, auctions ' +
      'with fills. A row appears a full hour and a batch after its end and never changes: `hash` covers the row and ' +
      '`previous`. Its numbers are null where fewer than 20 accounts traded, or none. `signed` is by the statement key over ' +
      'the newest row of the page, and so covers all before; `certificate` is that of the statement key. `after` is a ' +
      '`start_unix_s`. With `accept: text/csv` the rows alone are answered.',
    tag: 'market',
    bearer: true,
    access: 'read',
    cost: COST.read,
    params: exact({
      symbol: t.String({ minLength: 1, maxLength: PATH_NAME_LENGTH_MAX, description: 'Instrument symbol.' }),
    }),
    query: exact({
      ...pageFields,
      period: t.Optional(oneOf(STATISTICS_PERIODS, { description: '`hour` if absent.' })),
    }),
    answer: { status: 200, body: Statistics, csv: 'items' },
    refuses: ['instrument_unknown'],
  },
  ({ venue, session, params, query }) =>
    venue.statistics(
      params.symbol,
      {
        after: query.after ?? 0,
        limit: query.limit ?? PAGE_ITEMS_DEFAULT,
        period: query.period ?? 'hour',
      },
      session,
    ),
)
