import { endpoint, t } from './_endpoint'
import { Instrument } from './_venue_shapes'

/** GET /instruments: every instrument, as a bare array. */
export default endpoint(
  { summary: 'Instruments', tag: 'market', answer: { status: 200, body: t.Array(Instrument) } },
  ({ venue }) => venue.instruments(),
)
