/** Serves a Solana node's JSON-RPC over HTTP on loopback: parameters, replies and errors. */
import { decodeBase58 } from '../../protocol/base58'
import type { Commitment, Machine } from './machine'

/** JSON text that is copied into a reply unchanged. */
export class RawJson {
  constructor(readonly text: string) {}
}

/** Writes bigints as bare integers, which JSON.stringify cannot do. */
export function encodeJson(value: unknown): string {
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof RawJson) return value.text
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null'
  if (Array.isArray(value)) return `[${value.map(encodeJson).join(',')}]`
  const members: string[] = []
  for (const [name, member] of Object.entries(value)) {
    if (member !== undefined) members.push(`${JSON.stringify(name)}:${encodeJson(member)}`)
  }
  return `{${members.join(',')}}`
}

/** Error codes. Source: Agave `rpc-client-api/src/custom_error.rs` and JSON-RPC 2.0 section 5.1. */
export const RPC_CODE = {
  preflight_failure: -32002,
  signature_verification_failure: -32003,
  node_unhealthy: -32005,
  unsupported_transaction_version: -32015,
  min_context_slot_not_reached: -32016,
  parse_error: -32700,
  invalid_request: -32600,
  method_not_found: -32601,
  invalid_params: -32602,
} as const

export class RpcError extends Error {
  constructor(
    readonly code: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message)
  }
}

export function invalidParams(message: string): RpcError {
  return new RpcError(RPC_CODE.invalid_params, `Invalid params: ${message}`)
}

export type Config = Record<string, unknown>
/** An RPC method: positional parameters in, result out; throws RpcError. */
export type Method = (machine: Machine, params: unknown[]) => unknown

/** The configuration object at `index`, `{}` if absent. @throws RpcError for a `minContextSlot` in the future */
export function configAt(machine: Machine, params: unknown[], index: number): Config {
  const config = params[index] ?? {}
  if (typeof config !== 'object' || Array.isArray(config)) throw invalidParams('expected an object')
  const minimum = (config as Config)['minContextSlot']
  const slot = machine.slotAt(commitmentOf(config as Config))
  if (typeof minimum === 'number' && minimum > slot) {
    throw new RpcError(RPC_CODE.min_context_slot_not_reached, 'Minimum context slot has not been reached', {
      contextSlot: slot,
    })
  }
  return config as Config
}

/** Default `finalized`, as on a node. @throws RpcError for an unknown level */
export function commitmentOf(config: Config): Commitment {
  const level = config['commitment'] ?? 'finalized'
  if (level === 'processed' || level === 'confirmed' || level === 'finalized') return level
  throw invalidParams('unknown commitment')
}

export function addressAt(params: unknown[], index: number): string {
  const address = params[index]
  if (typeof address !== 'string' || !decodeBase58(address, 32))
    throw invalidParams('expected a base58 address')
  return address
}

export function addressesAt(params: unknown[], index: number, max: number): string[] {
  const list = params[index]
  if (!Array.isArray(list) || list.length > max) throw invalidParams(`expected at most ${max} addresses`)
  return list.map((_, at) => addressAt(list, at))
}

export function textAt(params: unknown[], index: number): string {
  const text = params[index]
  if (typeof text !== 'string') throw invalidParams('expected a string')
  return text
}

/** @throws RpcError for an encoding other than base64; `jsonParsed` becomes base64, as on a node without a parser */
export function requireBase64({ encoding }: Config): void {
  if (encoding !== 'base64' && encoding !== 'jsonParsed') throw invalidParams('ask for encoding base64')
}

/** A method with its configuration at `index`; the result names the slot of the commitment that was asked for. */
export function inContext(
  index: number,
  read: (machine: Machine, params: unknown[], level: Commitment, config: Config) => unknown,
): Method {
  return (machine, params) => {
    const config = configAt(machine, params, index)
    const level = commitmentOf(config)
    const context = { apiVersion: '4.2.0', slot: machine.slotAt(level) }
    return { context, value: read(machine, params, level, config) }
  }
}

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

/** Fetch standard, "CORS protocol": lets a browser send JSON and show the answer to the page that asked. */
function readableBy(request: Request): Record<string, string> {
  const origin = request.headers.get('origin') ?? ''
  if (!LOOPBACK_ORIGIN.test(origin)) return {}
  return {
    'access-control-allow-origin': origin,
    // The Solana kit sends the second to every node.
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
