/** The open sockets of the process: how many there may be, and the one clock that beats for all of them. */
import type { Session } from '../engine/venue'
import { Refusal } from '../protocol/refusals'
import type { Connection } from './_connection'
import type { Meters } from './_meters'

const TICK_MS = 1_000

export interface Sockets {
  /** Reserves a place before the upgrade; throws `connection_limit`. The returned function gives it back, once. */
  reserve(session: Session): () => void
  add(connection: Connection): void
  remove(connection: Connection): void
  count(): number
  /** Heartbeats, warnings and expiries as of now; the timer calls it each second. */
  tick(): void
  /** Tells every socket that the venue goes, and closes it. */
  byeAll(reason: 'upgrade' | 'restart', retry_after_ms: number): void
  stop(): void
}

export function openSockets(args: {
  sockets_max: number
  sockets_per_account_max: number
  monotonicMs: () => number
  meters: Meters
}): Sockets {
  const open = new Set<Connection>()
  const by_account = new Map<string, number>()
  let reserved = 0

  const tick = () => {
    const now_ms = args.monotonicMs()
    for (const connection of open) connection.tick(now_ms)
  }
  const timer = setInterval(tick, TICK_MS)
  // Sockets alone do not keep a process alive.
  timer.unref()
  return {
    tick,
    count: () => open.size,
    reserve({ account_id }) {
      const own = by_account.get(account_id) ?? 0
      if (reserved >= args.sockets_max || own >= args.sockets_per_account_max) {
        throw new Refusal('connection_limit')
      }
      reserved += 1
      by_account.set(account_id, own + 1)
      let given = true
      return () => {
        if (!given) return
        given = false
        reserved -= 1
        const left = by_account.get(account_id)! - 1
        if (left === 0) by_account.delete(account_id)
        else by_account.set(account_id, left)
      }
    },
    add(connection) {
      open.add(connection)
      args.meters.socketOpened()
    },
    remove(connection) {
      open.delete(connection)
    },
    byeAll(reason, retry_after_ms) {
      for (const connection of [...open]) connection.bye(reason, retry_after_ms)
    },
    stop: () => clearInterval(timer),
  }
}
