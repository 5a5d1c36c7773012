/** The methods of the stand-in agent: what each of the v0 API answers for the imaginary machine. */
import { fromAnyHex } from '../../protocol/any_hex'
import { toHex } from '../../protocol/bytes'
import { deriveKey } from './derive_key'
import type { StandInKnobs } from './knobs'
import { measureBoot, VM_CONFIG } from './measured_boot'
import { DEVELOPMENT_ONLY, MR_TD, OS_IMAGE_HASH, OTHER_COMPOSE_HASH, PPID } from './platform'
import { type AgentMethods, type AgentRequest, BadRequest } from './serve_agent'
import { type QuotingEnclave, signQuote } from './sign_quote'
import type { StoredKeys } from './stored_keys'

export type Machine = {
  keys: StoredKeys
  quoting_enclave: QuotingEnclave
  app_compose: string
  compose_hash: Uint8Array
  /** Read at every request. */
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

/** What was measured at boot: the stated manifest, or another one when the knob says so. */
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
