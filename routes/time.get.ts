import { ServerTime } from '../protocol/wire/public'
import { endpoint } from '../server/edge/endpoint'

/** GET /time: slot and time, from which a client computes the `expiry_slot` of a wall-clock time. */
export default endpoint(
  { summary: 'Slot and time', tag: 'operations', answer: { status: 200, body: ServerTime } },
  ({ venue }) => venue.time(),
)
