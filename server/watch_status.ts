/** Logs readiness and its reasons whenever they change. */

import type { SystemStatus } from '../protocol/wire/public'
import type { Log } from './edge/log'

/** Looks at once and then at intervals; returns the end of it. */
export function watchStatus(
  status: () => Pick<SystemStatus, 'ready' | 'reasons'>,
  log: Log,
  every_ms: number,
): () => void {
  let last = 'ready '
  const look = () => {
    const { ready, reasons } = status()
    const reason = reasons.join('; ')
    const code = ready ? 'ready' : 'not_ready'
    if (`${code} ${reason}` === last) return
    last = `${code} ${reason}`
    log.write(ready ? 'info' : 'warn', 'status_changed', { code, reason })
  }
  look()
  const timer = setInterval(look, every_ms)
  timer.unref()
  return () => clearInterval(timer)
}
