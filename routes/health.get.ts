import { endpoint } from './_endpoint'
import { Health } from './_venue_shapes'

/** GET /health: the process answers. Looks at nothing else. */
export default endpoint(
  { summary: 'Liveness', tag: 'operations', answer: { status: 200, body: Health } },
  ({ clock, started_ms }) => ({
    status: 'ok' as const,
    uptime_ms: Math.floor(clock.monotonicMs() - started_ms),
  }),
)
