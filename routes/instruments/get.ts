import { Instrument } from '../../protocol/wire/public'
import { t } from '../../protocol/wire/values'
import { endpoint } from '../../server/edge/endpoint'

/** GET /instruments: every instrument, as a bare array. */
export default endpoint(
  { summary: 'Instruments', tag: 'market', answer: { status: 200, body: t.Array(Instrument) } },
  ({ venue }) => venue.instruments(),
)
