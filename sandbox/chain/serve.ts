/** The loopback server: JSON-RPC over HTTP, subscriptions over WebSocket, one port. */
import type { Machine } from './machine'
import { encodeJson, type Method, RPC_CODE, RpcError } from './rpc'
import { Subscriptions } from './subscriptions'

const BODY_BYTES_MAX = 1_000_000
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost)(:\d+)?$/
/** A page served on this machine may ask, as it may ask a public endpoint; a page from anywhere else may not. */
const LOOPBACK_ORIGIN = /^https?:\/\/(127\.0\.0\.1|localhost)(:\d+)?$/

type Request_ = { id?: unknown; method?: unknown; params?: unknown }
/** An answer lost on the way: the caller gets an HTTP error although the method ran. */
class ReplyLost extends Error {}

type RpcServer = { port: number; stop(): Promise<void> }

export function serveRpc(machine: Machine, methods: Record<string, Method>): RpcServer {
  const sockets = new Map<Subscriptions, { close(code: number): void }>()
  const stopWatching = machine.watch(() => {
    for (const subscriptions of sockets.keys()) subscriptions.poll()
  })
  const server = Bun.serve<{ subscriptions?: Subscriptions }>({
    hostname: '127.0.0.1',
    port: 0,
    maxRequestBodySize: BODY_BYTES_MAX,
    fetch(request, self) {
      // A page in a browser must not reach this server through a name that resolves to loopback.
      if (!LOOPBACK_HOST.test(request.headers.get('host') ?? ''))
        return new Response('wrong host', { status: 421 })
      if (self.upgrade(request, { data: {} })) return undefined
      if (request.method === 'OPTIONS')
        return new Response(null, { status: 204, headers: readableBy(request) })
      if (request.method !== 'POST') return new Response('POST only', { status: 405 })
      if (!request.headers.get('content-type')?.startsWith('application/json')) {
        return new Response('JSON only', { status: 415 })
      }
      return answerHttp(machine, methods, request)
    },
    websocket: {
      open(socket) {
        socket.data.subscriptions = new Subscriptions(machine, (text) => socket.send(text))
        sockets.set(socket.data.subscriptions, socket)
      },
      message(socket, text) {
        const { subscriptions } = socket.data
        if (!subscriptions) return
        void answerText(machine, methods, String(text), subscriptions).then((reply) => {
          socket.send(reply)
          // A fact that already holds (a landed signature) must not wait for the next slot.
          subscriptions.poll()
        })
      },
      close(socket) {
        if (socket.data.subscriptions) sockets.delete(socket.data.subscriptions)
      },
    },
  })
  return {
    port: server.port!,
    async stop() {
      stopWatching()
      for (const socket of sockets.values()) socket.close(1000)
      await server.stop(true)
    },
  }
}

/** Fetch standard, "CORS protocol": what lets a browser send JSON and show the answer to the page that asked. */
function readableBy(request: Request): Record<string, string> {
  const origin = request.headers.get('origin') ?? ''
  if (!LOOPBACK_ORIGIN.test(origin)) return {}
  return {
    'access-control-allow-origin': origin,
    'access-control-allow-headers': 'content-type',
    vary: 'origin',
  }
}

async function answerHttp(
  machine: Machine,
  methods: Record<string, Method>,
  request: Request,
): Promise<Response> {
  try {
    const reply = await answerText(machine, methods, await request.text())
    return new Response(reply, { headers: { 'content-type': 'application/json', ...readableBy(request) } })
  } catch (error) {
    if (error instanceof ReplyLost) return new Response('unavailable', { status: Number(error.message) })
    throw error
  }
}

async function answerText(
  machine: Machine,
  methods: Record<string, Method>,
  text: string,
  subscriptions?: Subscriptions,
): Promise<string> {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return encodeJson(failure(null, new RpcError(RPC_CODE.parse_error, 'Parse error')))
  }
  if (!Array.isArray(body)) return encodeJson(await answer(machine, methods, body as Request_, subscriptions))
  return encodeJson(
    await Promise.all(body.map((one) => answer(machine, methods, one as Request_, subscriptions))),
  )
}

async function answer(
  machine: Machine,
  methods: Record<string, Method>,
  request: Request_,
  subscriptions: Subscriptions | undefined,
): Promise<unknown> {
  const id = request?.id ?? null
  try {
    if (typeof request?.method !== 'string') throw new RpcError(RPC_CODE.invalid_request, 'Invalid request')
    const params = Array.isArray(request.params) ? request.params : []
    return {
      jsonrpc: '2.0',
      id,
      result: (await run(machine, methods, request.method, params, subscriptions)) ?? null,
    }
  } catch (error) {
    if (error instanceof ReplyLost) throw error
    return failure(id, error)
  }
}

async function run(
  machine: Machine,
  methods: Record<string, Method>,
  name: string,
  params: unknown[],
  subscriptions: Subscriptions | undefined,
): Promise<unknown> {
  const fault = machine.faults.rpc?.(name)
  if (fault?.latency_ms) await Bun.sleep(fault.latency_ms)
  if (fault?.status) throw new ReplyLost(String(fault.status))
  if (fault?.error) throw new RpcError(fault.error.code, fault.error.message)
  const subscribed = subscriptions?.handle(name, params)
  if (subscribed !== undefined) return subscribed
  const method = Object.hasOwn(methods, name) ? methods[name] : undefined
  if (!method) throw new RpcError(RPC_CODE.method_not_found, 'Method not found')
  const result = await method(machine, params)
  if (fault?.twice) await method(machine, params)
  if (fault?.reply_lost) throw new ReplyLost('503')
  return result
}

function failure(id: unknown, error: unknown): unknown {
  if (error instanceof RpcError) {
    return { jsonrpc: '2.0', id, error: { code: error.code, message: error.message, data: error.data } }
  }
  return { jsonrpc: '2.0', id, error: { code: -32603, message: 'Internal error' } }
}
