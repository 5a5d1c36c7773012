import { SystemStatus } from '../../protocol/wire/public'
import { endpoint } from '../../server/edge/endpoint'

/** GET /system/status: readiness, always 200; gives the reasons behind answers 503. */
export default endpoint(
  {
    summary: 'Readiness',
    description: 'Whether matching runs and settlement is wired, with reasons where not. Always 200.',
    tag: 'operations',
    answer: { status: 200, body: SystemStatus },
  },
  ({ venue }) => venue.status(),
)
