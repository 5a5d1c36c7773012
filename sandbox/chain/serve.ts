/** Serves JSON-RPC over HTTP on loopback. */
import type { Machine } from './machine'
import { encodeJson, type Method, RPC_CODE, RpcError } from './rpc'

const BODY_BYTES_MAX = 1_000_000
const LOOPBACK_HOST = /^(127\.0\.0\.1|localhost)(:\d+)?$/
/** A page served on this machine may ask, as it may ask a public endpoint; a page from anywhere else may not. */
const LOOPBACK_ORIGIN = /^https?:\/\/(127\.0\.0\.1|localhost)(:\d+)?$/

type Request_ = { id?: unknown; method?: unknown; params?: unknown }
/** An answer lost on the way: the caller gets an HTTP error although the method ran. */
class ReplyLost extends Error {}

type RpcServer = { port: number; stop(): Promise<void> }

/** Serves on `port`, or on any free one where it is 0 or in use. */
export function serveRpc(machine: Machine, methods: Record<string, Method>, port: number): RpcServer {
  const options = {
    hostname: '127.0.0.1',
    maxRequestBodySize: BODY_BYTES_MAX,
    fetch(request: Request) {
      // A page in a browser must not reach this server through a name that resolves to loopback.
      if (!LOOPBACK_HOST.test(request.headers.get('host') ?? ''))
        return new Response('wrong host', { status: 421 })
      if (request.method === 'OPTIONS')
        return new Response(null, { status: 204, headers: readableBy(request) })
      if (request.method !== 'POST') return new Response('POST only', { status: 405 })
      if (!request.headers.get('content-type')?.startsWith('application/json')) {
        return new Response('JSON only', { status: 415 })
      }
      return answerHttp(machine, methods, request)
    },
  }
  const server = listen(options, port)
  return { port: server.port!, stop: () => server.stop(true) }
}

function listen(options: Omit<Bun.Serve.Options<undefined>, 'port'>, port: number) {
  try {
    return Bun.serve({ ...options, port } as never)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    return Bun.serve({ ...options, port: 0 } as never)
  }
}

/** Fetch standard, "CORS protocol": what lets a browser send JSON and show the answer to the page that asked. */
function readableBy(request: Request): Record<string, string> {
  const origin = request.headers.get('origin') ?? ''
  if (!LOOPBACK_ORIGIN.test(origin)) return {}
  return {
    'access-control-allow-origin': origin,
    // The second is what the Solana kit sends to every node.
    'access-control-allow-headers': 'content-type, solana-client',
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

async function answerText(machine: Machine, methods: Record<string, Method>, text: string): Promise<string> {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return encodeJson(failure(null, new RpcError(RPC_CODE.parse_error, 'Parse error')))
  }
  if (!Array.isArray(body)) return encodeJson(await answer(machine, methods, body as Request_))
  return encodeJson(await Promise.all(body.map((one) => answer(machine, methods, one as Request_))))
}

async function answer(
  machine: Machine,
  methods: Record<string, Method>,
  request: Request_,
): Promise<unknown> {
  const id = request?.id ?? null
  try {
    if (typeof request?.method !== 'string') throw new RpcError(RPC_CODE.invalid_request, 'Invalid request')
    const params = Array.isArray(request.params) ? request.params : []
    return {
      jsonrpc: '2.0',
      id,
      result: (await run(machine, methods, request.method, params)) ?? null,
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
): Promise<unknown> {
  const fault = machine.faults.rpc?.(name)
  if (fault?.status) throw new ReplyLost(String(fault.status))
  if (fault?.error) throw new RpcError(fault.error.code, fault.error.message)
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
