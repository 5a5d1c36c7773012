import { InstrumentView } from '../../protocol/wire/public'
import { exact, t } from '../../protocol/wire/values'
import { endpoint } from '../../server/edge/endpoint'
import { PATH_NAME_LENGTH_MAX } from '../../server/limits'

/** GET /instruments/{symbol}: one instrument. Any other text answers `instrument_unknown`, never `field_invalid`. */
export default endpoint(
  {
    summary: 'One instrument',
    tag: 'market',
    params: exact({
      symbol: t.String({ minLength: 1, maxLength: PATH_NAME_LENGTH_MAX, description: 'Instrument symbol.' }),
    }),
    answer: { status: 200, body: InstrumentView },
    refuses: ['instrument_unknown'],
  },
  ({ venue, params }) => venue.instrument(params.symbol),
)
