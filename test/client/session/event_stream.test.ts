/** The event stream against venues that lie, stall and drop: each event once and in order, or the stream says why not. */
import { afterAll, expect, spyOn, test } from 'bun:test'
import { type EventStreamHandlers, EventsMissing, followEvents } from '../../../client/api/event_stream'
import { VenueClient, VenueProblem, WrongAccount } from '../../../client/api/venue_client'
import { STREAM_SILENCE_MS } from '../../../client/limits'

const LOGIN = { api_key: 'k', api_secret: 's', passphrase: 'p', account_id: 'aa'.repeat(32) }
type Line = { after: number; token: string; send(frame: object | string): void; close(): void }
/** Serves the n-th socket by the n-th script; later sockets stay silent. */
type Script = (line: Line) => void

const servers: ReturnType<typeof Bun.serve>[] = []
afterAll(async () => {
  for (const server of servers) await server.stop(true)
})

function venue(scripts: Script[], login: () => object | Response = () => ({ account_id: LOGIN.account_id })) {
  const asked: number[] = []
  let logins = 0
  const server = Bun.serve<{ after: number; token: string }>({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request, own) {
      const url = new URL(request.url)
      if (url.pathname === '/auth/token') {
        const answer = login()
        const token = { access_token: `token-${++logins}`, token_type: 'Bearer', expires_in: 900 }
        return answer instanceof Response ? answer : Response.json({ ...token, ...answer })
      }
      const data = { after: Number(url.searchParams.get('after')), token: url.searchParams.get('token')! }
      if (data.token === 'token-0') return new Response('', { status: 401 })
      return own.upgrade(request, { data }) ? undefined : new Response('', { status: 400 })
    },
    websocket: {
      open(socket) {
        const { after, token } = socket.data
        asked.push(after)
        const send = (frame: object | string) =>
          void socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame))
        scripts.shift()?.({ after, token, send, close: () => socket.close() })
      },
      message() {},
    },
  })
  servers.push(server)
  const base_url = `http://127.0.0.1:${server.port}`
  const transport = {
    base_url,
    fetch: (path: string, init?: RequestInit) => fetch(`${base_url}${path}`, init),
    webSocket: (path: string) => new WebSocket(`${base_url.replace('http', 'ws')}${path}`),
  }
  return { asked, client: new VenueClient(transport, LOGIN), logins: () => logins }
}
const event = (seq: number) => ({ type: 'event', seq, kind: 'order.accepted', slot: 1, unix_ms: 1, data: {} })
function lastly({ send, close }: Line, seqs: number[]): void {
  for (const seq of seqs) send(event(seq))
  close()
}

/** Follows until `count` events were handled or the stream ended. */
async function follow(
  { client }: ReturnType<typeof venue>,
  count: number,
  handlers: Partial<EventStreamHandlers> = {},
) {
  const handled: number[] = []
  const over = Promise.withResolvers<unknown>()
  const stream = followEvents(client, 0, {
    ended: (reason) => over.resolve(reason),
    ...handlers,
    async event(one) {
      await handlers.event?.(one)
      handled.push(one.seq)
      // The position moves after the handler.
      if (handled.length === count) setTimeout(() => over.resolve(undefined), 0)
    },
  })
  const reason = await over.promise
  const { seq } = stream
  stream.close()
  return { handled, reason, seq }
}

test('a handler that fails ends the stream before its event, and no later one is handed out', async () => {
  const failed = new Error('the disk is full')
  const of = venue([({ send }) => [1, 2, 3].map((seq) => send(event(seq)))])
  const fails = ({ seq }: { seq: number }) => {
    if (seq === 2) throw failed
  }
  expect(await follow(of, 3, { event: fails })).toEqual({ handled: [1], reason: failed, seq: 1 })
  expect(of.asked).toEqual([0])
})

test('missing events end the stream by their numbers, announced as a gap or not', async () => {
  const jump = await follow(venue([({ send }) => [1, 5].map((seq) => send(event(seq)))]), 2)
  expect(jump).toEqual({ handled: [1], reason: new EventsMissing(2, 4), seq: 1 })
  const gap = { type: 'gap', seq_from: 1, seq_to: 7 }
  const told = await follow(venue([({ send }) => [gap, event(8)].map(send)]), 1)
  expect(told).toEqual({ handled: [], reason: new EventsMissing(1, 7), seq: 0 })
})

test('a gap that a handler takes is passed over whole, once, and never backwards', async () => {
  const gaps: number[][] = []
  const frames = [event(1), { type: 'gap', seq_from: 1, seq_to: 4 }, { type: 'gap', seq_from: 2, seq_to: 3 }]
  const of = venue([({ send }) => [...frames, event(5)].map(send)])
  const done = await follow(of, 2, { gap: (from, to) => void gaps.push([from, to]) })
  expect(done).toEqual({ handled: [1, 5], reason: undefined, seq: 5 })
  expect(gaps).toEqual([[2, 4]])
})

test('a gap is believed until an event follows it, and a contradiction ends the stream', async () => {
  const gap = { type: 'gap', seq_from: 2, seq_to: 2 ** 53 - 1 }
  const handled = { gap: () => undefined }
  const within = await follow(venue([({ send }) => [event(1), gap, event(2)].map(send)]), 2, handled)
  expect(within).toEqual({ handled: [1], reason: new EventsMissing(2, 2 ** 53 - 1), seq: 1 })
  const frames = [event(1), gap, { type: 'heartbeat', seq: 2 }]
  const beyond = await follow(venue([({ send }) => frames.map(send)]), 2, handled)
  expect(beyond.reason).toEqual(new EventsMissing(3, 2 ** 53 - 1))
  // A socket that was cut after the gap is opened again where the last event was.
  const cut: Script = ({ send, close }) => {
    for (const frame of [event(1), gap]) send(frame)
    close()
  }
  const of = venue([cut, ({ send }) => [2, 3].map((seq) => send(event(seq)))])
  expect(await follow(of, 3, handled)).toEqual({ handled: [1, 2, 3], reason: undefined, seq: 3 })
  expect(of.asked).toEqual([0, 1])
})

test('an event sent twice is handed out once, also by a socket that starts too early', async () => {
  const early: Script = ({ send }) => [1, 2, 3].map((seq) => send(event(seq)))
  const of = venue([(line) => lastly(line, [1, 1, 2]), early])
  expect(await follow(of, 3)).toEqual({ handled: [1, 2, 3], reason: undefined, seq: 3 })
  expect(of.asked).toEqual([0, 2])
})

test('a slow handler holds every later event back, over a lost socket too', async () => {
  const running: number[] = []
  const of = venue([
    (line) => lastly(line, [1, 2]),
    ({ after, send }) => [1, 2, 3].filter((seq) => seq > after).map((seq) => send(event(seq))),
  ])
  const slow = async ({ seq }: { seq: number }) => {
    running.push(seq)
    await Bun.sleep(300)
    running.push(-seq)
  }
  expect((await follow(of, 3, { event: slow })).handled).toEqual([1, 2, 3])
  expect(running).toEqual([1, -1, 2, -2, 3, -3])
  // The second socket was asked for only once the first one's events were handled.
  expect(of.asked).toEqual([0, 2])
})

test('a malformed frame closes the socket, and the next one goes on from the same place', async () => {
  for (const wrong of ['no frame', 'null', '7', '"event"', '']) {
    const after: Script = ({ send }) => {
      for (const seq of [2, 3]) send(event(seq))
    }
    const first: Script = ({ send }) => {
      for (const frame of [event(1), wrong]) send(frame)
    }
    const of = venue([first, after])
    expect(await follow(of, 3)).toEqual({ handled: [1, 2, 3], reason: undefined, seq: 3 })
    expect(of.asked).toEqual([0, 1])
  }
})

test('a venue that closes each socket at once is asked less and less often, until an event comes', async () => {
  const drops: Script = ({ close }) => close()
  const timers = spyOn(globalThis, 'setTimeout')
  const asked_once = venue([drops, drops, drops, (line) => lastly(line, [1]), ({ send }) => send(event(2))])
  expect((await follow(asked_once, 2)).handled).toEqual([1, 2])
  const waits_ms = timers.mock.calls.map(([, ms]) => ms ?? 0).filter((ms) => ms >= 200 && ms <= 5_000)
  timers.mockRestore()
  expect(waits_ms).toEqual([200, 400, 800, 200])
}, 120_000)

test('a socket that falls silent, or promises events that do not come, is opened again', async () => {
  const hello = { type: 'hello', heartbeat_ms: 20 }
  const beat = { type: 'heartbeat', seq: 3 }
  const of = venue([
    ({ send }) => [hello, event(1)].map(send),
    ({ send }) => [hello, event(2), beat, beat, beat].map(send),
    ({ send }) => send(event(3)),
  ])
  expect(await follow(of, 3)).toEqual({ handled: [1, 2, 3], reason: undefined, seq: 3 })
  expect(of.asked).toEqual([0, 1, 2])
}, 120_000)

test('a socket is dead after two of its heartbeats and the silence that a network may add', async () => {
  const timers = spyOn(globalThis, 'setTimeout')
  await follow(venue([({ send }) => [{ type: 'hello', heartbeat_ms: 12_345 }, event(1)].map(send)]), 1)
  expect(timers.mock.calls.map(([, ms]) => ms)).toContain(2 * 12_345 + STREAM_SILENCE_MS)
  timers.mockRestore()
})

test('a login that is refused ends the stream, one that is lost does not', async () => {
  const problem = { code: 'credentials_invalid', message: 'no', status: 401, applied: 'no' }
  const refused = await follow(
    venue([], () => Response.json(problem, { status: 401 })),
    1,
  )
  expect(refused.reason).toBeInstanceOf(VenueProblem)
  expect(
    (
      await follow(
        venue([], () => ({ account_id: 'bb'.repeat(32) })),
        1,
      )
    ).reason,
  ).toBeInstanceOf(WrongAccount)
  const answers = [new Response('<html>', { status: 502 }), { account_id: LOGIN.account_id }]
  const later = venue([({ send }) => send(event(1))], () => answers.shift()!)
  expect((await follow(later, 1)).handled).toEqual([1])
})

test('an upgrade that is refused costs the token, and the next login opens the stream', async () => {
  const tokens = [{ access_token: 'token-0' }, { access_token: 'good' }]
  const of = venue([({ send, token }) => token === 'good' && send(event(1))], () => ({
    account_id: LOGIN.account_id,
    ...tokens.shift()!,
  }))
  expect((await follow(of, 1)).handled).toEqual([1])
  expect(of.logins()).toBe(2)
})

test('a stream that is closed hands out nothing more', async () => {
  const opened = Promise.withResolvers<Line>()
  const of = venue([(line) => opened.resolve(line)])
  const handled: number[] = []
  const first = Promise.withResolvers<void>()
  const stream = followEvents(of.client, 0, {
    event: ({ seq }) => {
      handled.push(seq)
      first.resolve()
      stream.close()
    },
  })
  const { send } = await opened.promise
  for (const seq of [1, 2, 3]) send(event(seq))
  await first.promise
  await Bun.sleep(400)
  expect([handled, of.asked]).toEqual([[1], [0]])
})

test('who learns late that a token has ended does not end the newer one', async () => {
  const { client, logins } = venue([])
  const first = await client.token()
  client.forget(first)
  const second = await client.token()
  client.forget(first)
  expect([await client.token(), logins()]).toEqual([second, 2])
})
