import { endpoint, t } from '../server/edge/endpoint'
import { Instrument } from '../server/shapes/venue'

/** GET /instruments: every instrument, as a bare array. */
export default endpoint(
  { summary: 'Instruments', tag: 'market', answer: { status: 200, body: t.Array(Instrument) } },
  ({ venue }) => venue.instruments(),
)
