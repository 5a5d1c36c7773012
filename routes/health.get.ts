import { Health } from '../protocol/wire/public'
import { endpoint } from '../server/edge/endpoint'

/** GET /health: liveness; checks only that the process answers. */
export default endpoint(
  { summary: 'Liveness', tag: 'operations', answer: { status: 200, body: Health } },
  ({ clock, started_ms }) => ({
    status: 'ok' as const,
    uptime_ms: Math.floor(clock.monotonicMs() - started_ms),
  }),
)
