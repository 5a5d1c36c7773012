import { endpoint } from './_endpoint'
import { ServerTime } from './_venue_shapes'

/** GET /time: the anchor from which a client projects a wall-clock time onto an `expiry_slot`. */
export default endpoint(
  { summary: 'Slot and time', tag: 'operations', answer: { status: 200, body: ServerTime } },
  ({ venue }) => venue.time(),
)
