/** Turns a GET of a socket path into an open socket; token, resume point and bounds are judged before the upgrade. */
import type { Session, Subscription } from '../engine/venue'
import { Refusal } from '../protocol/refusals'
import type { Answering } from './_answer'
import { authenticate, socketToken } from './_auth'
import { Connection, type Start } from './_connection'
import { formOf } from './_form'
import { commonHeaders, requestId } from './_headers'
import type { Transport } from './_outbox'
import { problemResponse, refusalOf } from './_problem'
import { readQuery } from './_query'
import { COST, limitHeaders } from './_rate'
import type { Services } from './_services'
import type { Stream, StreamContract } from './_stream'
import { exact, QueryInteger, t } from './_wire'

/** What the listener stores with each socket and calls back. */
export type SocketData = {
  opened(transport: Transport): void
  message(message: string | Uint8Array): void
  drained(): void
  closed(code: number): void
}
/** The part of Bun's Server that upgrades; it must be the server the request came to. */
export type Upgrader = {
  upgrade(request: Request, options: { data: SocketData; headers: Record<string, string> }): boolean
}

export const StreamQuery = exact({
  token: t.Optional(
    t.String({ maxLength: 512, description: 'Bearer token, for clients that cannot set headers.' }),
  ),
  after: t.Optional(QueryInteger('Resume after this seq.')),
})
const query = formOf(StreamQuery, 'query')

export function upgrading(
  stream: Stream,
  services: Services,
  route: string,
  upgraderOf: (request: Request) => Upgrader | undefined,
): Answering {
  return async ({ request }) => {
    const request_id = requestId(request)
    try {
      const server = upgraderOf(request)
      if (server === undefined || request.headers.get('upgrade')?.toLowerCase() !== 'websocket') {
        throw new Refusal('upgrade_required')
      }
      await connect(stream.contract, services, request, server, request_id)
      // The connection has left HTTP; the runtime ignores this answer.
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
  const session = authenticate(venue, socketToken(request))
  const limits = limitHeaders(venue.takeLimit(session.account_id, COST.read))
  const after = resumePoint(readQuery(request.url))
  const release = sockets.reserve(session)
  let subscription: Subscription | undefined
  try {
    const connection = new Connection(services, contract, session, (closed) => sockets.remove(closed))
    const start = await begin(services, contract, session, connection, after)
    subscription = start.subscription
    const data = socketData(services, connection, start, release)
    const headers = { ...commonHeaders(request_id), ...limits }
    if (!server.upgrade(request, { data, headers })) throw new Refusal('upgrade_required')
  } catch (error) {
    subscription?.close()
    release()
    throw error
  }
}

/** Throws `after_invalid` for a malformed resume point; one ahead of the log is refused by the subscription. */
function resumePoint(asked: Record<string, string>): number | undefined {
  try {
    const { after } = query.check(asked)
    return after === undefined ? undefined : Number(after)
  } catch (fault) {
    if (fault instanceof Refusal && fault.facts.field === 'after') throw new Refusal('after_invalid')
    throw fault
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
  // Events the reader asks for are no longer kept: it is told of the gap and given the state instead.
  const missed = after !== undefined && after < subscription.seq_first - 1
  try {
    const wanted = contract.snapshot && (after === undefined || missed)
    const snapshot = wanted ? venue.own.snapshot(session.account_id) : undefined
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
    drained: () => connection.drained(),
    closed(code) {
      release()
      services.meters.socketClosed(code)
      connection.closed()
    },
  }
}
