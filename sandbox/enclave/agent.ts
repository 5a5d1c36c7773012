/** Serves dstack's guest agent API v0 for the imaginary machine on a unix socket. */

import { chmodSync } from 'node:fs'
import { fromAnyHex, toHex } from '../../protocol/bytes'
import { type QuotingEnclave, signQuote } from './authorities'
import { deriveKey, type StoredKeys } from './keys'
import {
  DEVELOPMENT_ONLY,
  MR_TD,
  measureBoot,
  OS_IMAGE_HASH,
  OTHER_COMPOSE_HASH,
  PPID,
  VM_CONFIG,
} from './machine'

type AgentRequest = Record<string, unknown>
/** A bad request; the message becomes the body of the 400. */
class BadRequest extends Error {}
type AgentMethods = ReadonlyMap<string, (request: AgentRequest) => Promise<unknown>>

/**
 * JSON over POST or GET, `/Method` or `/v0/Method`, answered with 200, 400 or 404. Only the owner of the process may
 * connect: access to the socket is access to every key.
 */
export function serveAgent(socket: string, methods: AgentMethods): { stop(): Promise<void> } {
  const server = Bun.serve({
    unix: socket,
    development: false,
    fetch: (request) => answer(request, methods),
  })
  chmodSync(socket, 0o600)
  return { stop: () => server.stop(true) }
}

async function answer(request: Request, methods: AgentMethods): Promise<Response> {
  const url = new URL(request.url)
  const name = /^(?:\/v0)?\/([A-Za-z]+)$/.exec(url.pathname)?.[1]
  // An agent that serves only v0 answers any other path with plain text.
  if (name === undefined) return new Response('404 Not Found', { status: 404 })
  const method = methods.get(name)
  if (method === undefined) return Response.json({ error: `Service not found: ${name}` }, { status: 404 })
  try {
    return Response.json(await method(await parameters(request, url)))
  } catch (error) {
    if (error instanceof BadRequest) return Response.json({ error: error.message }, { status: 400 })
    throw error
  }
}

async function parameters(request: Request, url: URL): Promise<AgentRequest> {
  if (request.method === 'GET') return Object.fromEntries(url.searchParams)
  if (request.method !== 'POST') throw new BadRequest('only GET and POST are served')
  const text = await request.text()
  if (text === '') return {}
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw new BadRequest('the body is not JSON')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new BadRequest('expected an object')
  return body as AgentRequest
}

/** Failures of real machines, read at every request. */
export type StandInKnobs = {
  /** Delay of each quote; quotes are serialized, as on hardware. */
  quote_delay_ms: number
  /** Methods that fail with 400. */
  failing_methods: string[]
  /** Quotes have the TD's debug attribute: the host can read its memory. */
  debug: boolean
  /** The measured manifest differs from the stated one. */
  wrong_compose_hash: boolean
  /** The platform runs an outdated TDX module. */
  out_of_date: boolean
  /** TCB info, QE identity and revocation lists ended a month ago. */
  expired_collateral: boolean
  /** The platform's PCK certificate is on the revocation list. */
  revoked_pck: boolean
}

export const NO_FAULTS: StandInKnobs = {
  quote_delay_ms: 0,
  failing_methods: [],
  debug: false,
  wrong_compose_hash: false,
  out_of_date: false,
  expired_collateral: false,
  revoked_pck: false,
}

type Machine = {
  keys: StoredKeys
  quoting_enclave: QuotingEnclave
  app_compose: string
  compose_hash: Uint8Array
  knobs: StandInKnobs
}

export function agentMethods(machine: Machine): AgentMethods {
  let quotes: Promise<unknown> = Promise.resolve()
  const oneQuoteAtATime = (request: AgentRequest): Promise<unknown> => {
    const made = quotes.then(() => getQuote(machine, request))
    quotes = made.catch(() => undefined)
    return made
  }
  const methods: [string, (request: AgentRequest) => Promise<unknown>][] = [
    ['Info', async () => info(machine)],
    ['GetKey', async (request) => getKey(machine, request)],
    ['GetQuote', oneQuoteAtATime],
    ['Version', async () => ({ version: `0.5.11 ${DEVELOPMENT_ONLY}`, rev: '' })],
  ]
  return new Map(
    methods.map(([name, method]) => [
      name,
      async (request) => {
        if (machine.knobs.failing_methods.includes(name)) throw new BadRequest('the method is set to fail')
        return method(request)
      },
    ]),
  )
}

/** The measured boot: of the stated manifest, or of another one if the knob is set. */
function boot(machine: Machine) {
  const { keys, knobs } = machine
  const compose_hash = knobs.wrong_compose_hash ? OTHER_COMPOSE_HASH : machine.compose_hash
  return { compose_hash, ...measureBoot(keys.app_id, compose_hash, keys.instance_id) }
}

function info(machine: Machine): unknown {
  const { keys, app_compose } = machine
  const { registers, full_log } = boot(machine)
  const compose_hash = toHex(machine.compose_hash)
  const device_id = toHex(PPID)
  const tcb_info = {
    mrtd: toHex(MR_TD),
    ...Object.fromEntries(registers.map((register, index) => [`rtmr${index}`, toHex(register)])),
    os_image_hash: toHex(OS_IMAGE_HASH),
    compose_hash,
    device_id,
    app_compose,
    event_log: full_log,
  }
  return {
    app_id: toHex(keys.app_id),
    instance_id: toHex(keys.instance_id),
    app_cert: '',
    tcb_info: JSON.stringify(tcb_info),
    app_name: `tacit ${DEVELOPMENT_ONLY}`,
    device_id,
    key_provider_info: JSON.stringify({ name: DEVELOPMENT_ONLY, id: '' }),
    compose_hash,
    vm_config: VM_CONFIG,
  }
}

function getKey(machine: Machine, request: AgentRequest): unknown {
  return deriveKey(machine.keys, text(request, 'path'), text(request, 'purpose'), text(request, 'algorithm'))
}

async function getQuote(machine: Machine, request: AgentRequest): Promise<unknown> {
  const given = text(request, 'report_data').replace(/^0x/, '').toLowerCase()
  const bytes = fromAnyHex(given)
  if (bytes === undefined) throw new BadRequest('report_data is not hex')
  if (bytes.length > 64) throw new BadRequest('report_data is longer than 64 bytes')
  const report_data = new Uint8Array(64)
  report_data.set(bytes)
  const { knobs } = machine
  if (knobs.quote_delay_ms > 0) await Bun.sleep(knobs.quote_delay_ms)
  const { compose_hash, registers, stripped_log } = boot(machine)
  const { debug, out_of_date } = knobs
  const quote = signQuote(machine.quoting_enclave, {
    registers,
    compose_hash,
    debug,
    out_of_date,
    report_data,
  })
  return {
    quote: toHex(quote),
    event_log: stripped_log,
    report_data: toHex(report_data),
    vm_config: VM_CONFIG,
  }
}

/** Absent fields are empty, as in the agent's protobuf. */
function text(request: AgentRequest, field: string): string {
  const value = request[field] ?? ''
  if (typeof value !== 'string') throw new BadRequest(`${field} is not a string`)
  return value
}
