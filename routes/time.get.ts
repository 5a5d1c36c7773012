import { endpoint } from '../server/edge/endpoint'
import { ServerTime } from '../server/shapes/venue'

/** GET /time: the anchor from which a client projects a wall-clock time onto an `expiry_slot`. */
export default endpoint(
  { summary: 'Slot and time', tag: 'operations', answer: { status: 200, body: ServerTime } },
  ({ venue }) => venue.time(),
)
