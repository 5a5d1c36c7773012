/** Upgrades requests to sockets after checking token, limit and resume point, and bounds the number of open sockets. */

import type { Session, Subscription } from '../../engine/venue'
import { Refusal } from '../../protocol/refusals'
import type { SystemStatus } from '../../protocol/wire/trading'
import { exact, parserOf, QueryInteger, t } from '../../protocol/wire/values'
import {
  type Answering,
  authenticateFor,
  caughtUpAfter,
  epochJudged,
  requireJudged,
  seqSeen,
  socketToken,
} from '../edge/answer'
import { readQuery } from '../edge/body'
import { declaredRefusals } from '../edge/declared'
import type { Stream, StreamContract } from '../edge/endpoint'
import { commonHeaders, requestId } from '../edge/headers'
import type { Meters } from '../edge/meters'
import { problemResponse, refusalOf } from '../edge/problem'
import { COST, limitHeaders } from '../edge/rate'
import type { OpenSocket, Services, Sockets } from '../edge/services'
import { QUERY_TOKEN_LENGTH_MAX, SOCKETS_TICK_MS } from '../limits'
import { Connection, type Start } from './connection'
import type { Transport } from './outbox'

/** Callbacks that the listener stores with each socket. */
export type SocketData = {
  opened(transport: Transport): void
  message(message: string | Uint8Array): void
  /** A ping or pong of the protocol, which the runtime answers. */
  control(): void
  drained(): void
  closed(code: number): void
}
/** The part of Bun's Server that upgrades; only the server that received the request can. */
export type Upgrader = {
  upgrade(request: Request, options: { data: SocketData; headers: Record<string, string> }): boolean
}

export const StreamQuery = exact({
  token: t.Optional(
    t.String({
      maxLength: QUERY_TOKEN_LENGTH_MAX,
      description: 'Bearer token, for clients that cannot set headers.',
    }),
  ),
  after: t.Optional(QueryInteger('Resume after this seq.')),
})
const parseQuery = parserOf(StreamQuery, 'query')

export function upgrading(
  stream: Stream,
  services: Services,
  route: string,
  upgraderOf: (request: Request) => Upgrader | undefined,
): Answering {
  const declared = new Set(declaredRefusals(stream))
  return async ({ request }) => {
    const request_id = requestId(request)
    try {
      const server = upgraderOf(request)
      if (server === undefined || request.headers.get('upgrade')?.toLowerCase() !== 'websocket') {
        throw new Refusal('upgrade_required')
      }
      const open = () => connect(stream.contract, services, request, server, request_id)
      await open().catch(async (error) => {
        const late = caughtUpAfter(services.venue, { request, declared }, error)
        if (late === undefined) throw error
        await late
        await open()
      })
      // The runtime ignores the answer of an upgraded request.
      return new Response(null)
    } catch (error) {
      const refusal = refusalOf(error, services.log, { request_id, route })
      return problemResponse(refusal, request_id, services.meters)
    }
  }
}

async function connect(
  contract: StreamContract,
  services: Services,
  request: Request,
  server: Upgrader,
  request_id: string,
): Promise<void> {
  const { venue, sockets } = services
  const judged = epochJudged(request)
  requireJudged(venue, judged, 'read')
  const session = authenticateFor(contract, venue, socketToken(request))
  const limits = limitHeaders(venue.takeLimit(session, COST.read))
  const after = resumePoint(readQuery(request.url))
  await venue.caughtUp(session.account_id, seqSeen(request))
  requireJudged(venue, judged, 'read')
  const release = sockets.reserve(session)
  let subscription: Subscription | undefined
  try {
    const connection = new Connection(services, contract, session, (closed) => sockets.remove(closed), judged)
    const start = await begin(services, contract, session, connection, after)
    subscription = start.subscription
    const data = socketData(services, connection, start, release)
    const headers = { ...commonHeaders(request_id), ...limits }
    // No stream speaks a subprotocol; the runtime would choose the first that the client offers.
    request.headers.delete('sec-websocket-protocol')
    if (!server.upgrade(request, { data, headers })) throw new Refusal('upgrade_required')
  } catch (error) {
    subscription?.close()
    release()
    throw error
  }
}

/** The seq to resume after. Throws `after_invalid` if malformed; the subscription rejects one ahead of the log. */
function resumePoint(asked: Record<string, string>): number | undefined {
  try {
    return parseQuery(asked).after
  } catch (error) {
    if (error instanceof Refusal && error.facts.field === 'after') throw new Refusal('after_invalid')
    throw error
  }
}

async function begin(
  services: Services,
  contract: StreamContract,
  session: Session,
  connection: Connection,
  after: number | undefined,
): Promise<Start> {
  const { venue } = services
  const subscription = await venue.subscribe(session, after, connection.sink, connection.gap)
  // Some events after the resume point are no longer kept: send the gap and a snapshot instead.
  const missed = after !== undefined && after < subscription.seq_first - 1
  try {
    const wanted = contract.snapshot && (after === undefined || missed)
    const snapshot = wanted ? await venue.own.snapshot(session) : undefined
    return { after, subscription, snapshot }
  } catch (error) {
    subscription.close()
    throw error
  }
}

function socketData(
  services: Services,
  connection: Connection,
  start: Start,
  release: () => void,
): SocketData {
  return {
    opened(transport) {
      services.sockets.add(connection)
      connection.opened(transport, start)
    },
    message: (message) => connection.message(message),
    control: () => connection.control(),
    drained: () => connection.drained(),
    closed(code) {
      release()
      services.meters.socketClosed(code)
      connection.closed()
    },
  }
}

/** The readiness when it differs from the one of the call before; the first call has none before it. */
function changesOf(read: () => SystemStatus): () => SystemStatus | undefined {
  let known: string | undefined
  return () => {
    const status = read()
    const { ready, reasons, reopens_slot } = status
    const now = JSON.stringify([ready, reasons, reopens_slot])
    const is_changed = known !== undefined && known !== now
    known = now
    return is_changed ? status : undefined
  }
}

/** Counts the open sockets and ticks them all with one timer. */
export function openSockets(args: {
  sockets_max: number
  sockets_per_account_max: number
  monotonicMs: () => number
  status: () => SystemStatus
  meters: Meters
}): Sockets {
  const open = new Set<OpenSocket>()
  /** By account and access: sockets that only read take no place of trading ones. */
  const by_lane = new Map<string, number>()
  let reserved = 0

  const changed = changesOf(args.status)
  const tick = () => {
    if (open.size === 0) return
    const now_ms = args.monotonicMs()
    const status = changed()
    for (const connection of open) {
      if (status !== undefined) connection.status(status)
      connection.tick(now_ms)
    }
  }
  const timer = setInterval(tick, SOCKETS_TICK_MS)
  // Sockets alone do not keep a process alive.
  timer.unref()
  return {
    tick,
    count: () => open.size,
    reserve({ access, account_id }) {
      const lane = `${access} ${account_id}`
      const own = by_lane.get(lane) ?? 0
      if (own >= args.sockets_per_account_max) throw new Refusal('connection_limit')
      if (reserved >= args.sockets_max) throw new Refusal('socket_limit')
      reserved += 1
      by_lane.set(lane, own + 1)
      let held = true
      return () => {
        if (!held) return
        held = false
        reserved -= 1
        const left = by_lane.get(lane)! - 1
        if (left === 0) by_lane.delete(lane)
        else by_lane.set(lane, left)
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
