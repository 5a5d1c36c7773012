/** Opens a simulated guest agent: dstack's socket API, collateral, and real TDX quotes signed under a development root. */

import { type KeyObject, sign } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fromAnyHex, toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { Collateral } from '../../protocol/tdx/collateral'
import { pemOfDer } from '../../protocol/x509/certificate'
import {
  type Authorities,
  issueAuthorities,
  issueRevocationList,
  PLATFORM_AUTHORITY_NAME,
  type QuotingEnclave,
  ROOT_NAME,
  signQuote,
  startQuotingEnclave,
  storeRoot,
} from './authorities'
import {
  CPU_SVN,
  DEVELOPMENT_ONLY,
  deriveKey,
  FMSPC,
  loadKeys,
  MR_TD,
  measureBoot,
  OS_IMAGE_HASH,
  OTHER_COMPOSE_HASH,
  PCE_ID,
  PCE_SVN,
  PPID,
  QE_MR_SIGNER,
  QE_PROD_ID,
  QE_SVN,
  type StoredKeys,
  TEE_TCB_SVN,
  TEE_TCB_SVN_OUT_OF_DATE,
  VM_CONFIG,
} from './machine'

type Period = { this_update_ms: number; next_update_ms: number }

const DAY_MS = 86_400_000
const TCB_DATE = '2025-01-01T00:00:00Z'
const OLD_TCB_DATE = '2023-01-01T00:00:00Z'
const ADVISORY = 'DEVELOPMENT-ONLY-SA-00001'
const MODULE_SIGNER = {
  mrsigner: '00'.repeat(48),
  attributes: '0000000000000000',
  attributesMask: 'FFFFFFFFFFFFFFFF',
}

/** Intel writes hex in capitals and times in whole seconds. */
const capitals = (bytes: Uint8Array): string => toHex(bytes).toUpperCase()
const second = (unix_ms: number): string => `${new Date(unix_ms).toISOString().slice(0, 19)}Z`

/** TDX TCB info version 3 (Intel PCS API v4, "Get TDX TCB Info"). */
function tcbInfo(period: Period): unknown {
  return {
    id: 'TDX',
    version: 3,
    issueDate: second(period.this_update_ms),
    nextUpdate: second(period.next_update_ms),
    fmspc: capitals(FMSPC),
    pceId: capitals(PCE_ID),
    tcbType: 0,
    tcbEvaluationDataNumber: 18,
    tdxModule: MODULE_SIGNER,
    tdxModuleIdentities: [moduleIdentity('TDX_03', 3), moduleIdentity('TDX_01', 6)],
    tcbLevels: [
      { tcb: platformTcb(TEE_TCB_SVN), tcbDate: TCB_DATE, tcbStatus: 'UpToDate' },
      {
        tcb: platformTcb(TEE_TCB_SVN_OUT_OF_DATE),
        tcbDate: OLD_TCB_DATE,
        tcbStatus: 'OutOfDate',
        advisoryIDs: [ADVISORY],
      },
    ],
  }
}

function moduleIdentity(id: string, isvsvn: number): unknown {
  return {
    id,
    ...MODULE_SIGNER,
    tcbLevels: [
      { tcb: { isvsvn }, tcbDate: TCB_DATE, tcbStatus: 'UpToDate' },
      { tcb: { isvsvn: 2 }, tcbDate: OLD_TCB_DATE, tcbStatus: 'OutOfDate', advisoryIDs: [ADVISORY] },
    ],
  }
}

/** Component 1 of the TDX versions is the module's major version and 0 here: module identities cover the module. */
function platformTcb(tee_tcb_svn: Uint8Array): unknown {
  const tdx = Array.from(tee_tcb_svn, (svn, index) => ({ svn: index === 1 ? 0 : svn }))
  return {
    sgxtcbcomponents: Array.from(CPU_SVN, (svn) => ({ svn })),
    pcesvn: PCE_SVN,
    tdxtcbcomponents: tdx,
  }
}

/** TD_QE identity version 2 (Intel PCS API v4, "Get TDX QE Identity"). */
function qeIdentity(period: Period): unknown {
  return {
    id: 'TD_QE',
    version: 2,
    issueDate: second(period.this_update_ms),
    nextUpdate: second(period.next_update_ms),
    tcbEvaluationDataNumber: 18,
    miscselect: '00000000',
    miscselectMask: 'FFFFFFFF',
    attributes: '11000000000000000000000000000000',
    attributesMask: 'FBFFFFFFFFFFFFFF0000000000000000',
    mrsigner: capitals(QE_MR_SIGNER),
    isvprodid: QE_PROD_ID,
    tcbLevels: [{ tcb: { isvsvn: QE_SVN }, tcbDate: TCB_DATE, tcbStatus: 'UpToDate' }],
  }
}

/** Valid for 30 days, like Intel's; with the knob it expired 30 days ago. */
export function issueCollateral(
  keys: StoredKeys,
  authorities: Authorities,
  knobs: StandInKnobs,
  now_ms: number,
): Collateral {
  // One minute in the past, for verifiers whose clock is slow.
  const this_update_ms = knobs.expired_collateral ? now_ms - 60 * DAY_MS : now_ms - 60_000
  const period = { this_update_ms, next_update_ms: this_update_ms + 30 * DAY_MS }
  const { root, platform_authority, tcb_signing } = keys
  const chain = (der: Uint8Array) =>
    [der, authorities.root].map((one) => pemOfDer(one, 'CERTIFICATE')).join('')
  const revoked_serials = knobs.revoked_pck ? [authorities.pck_serial] : []
  const root_list = issueRevocationList({
    issuer: ROOT_NAME,
    issuer_key: root,
    ...period,
    revoked_serials: [],
  })
  const pck_list = issueRevocationList({
    issuer: PLATFORM_AUTHORITY_NAME,
    issuer_key: platform_authority,
    ...period,
    revoked_serials,
  })
  const tcb_info = JSON.stringify(tcbInfo(period))
  const qe_identity = JSON.stringify(qeIdentity(period))
  return {
    pck_crl_issuer_chain: chain(authorities.platform_authority),
    root_ca_crl: toHex(root_list),
    pck_crl: toHex(pck_list),
    tcb_info_issuer_chain: chain(authorities.tcb_signing),
    tcb_info,
    tcb_info_signature: signText(tcb_info, tcb_signing),
    qe_identity_issuer_chain: chain(authorities.tcb_signing),
    qe_identity,
    qe_identity_signature: signText(qe_identity, tcb_signing),
  }
}

function signText(text: string, key: KeyObject): string {
  return toHex(sign('sha256', utf8(text), { key, dsaEncoding: 'ieee-p1363' }))
}

type AgentRequest = Record<string, unknown>
/** A bad request; the message becomes the body of the 400. */
class BadRequest extends Error {}
type AgentMethods = ReadonlyMap<string, (request: AgentRequest) => Promise<unknown>>

/**
 * JSON over POST or GET, `/Method` or `/v0/Method`, answered with 200, 400 or 404. Only the owner of the process may
 * connect: access to the socket is access to every key.
 */
function serveAgent(socket: string, methods: AgentMethods): { stop(): Promise<void> } {
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

function agentMethods(machine: Machine): AgentMethods {
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

/**
 * Opens a simulated guest agent for development and tests: dstack's socket API, with real TDX quote structures signed
 * under a development root. DEVELOPMENT ONLY: verifiers reject it without that root, and a deployment does not start on it.
 */

type StandInOptions = {
  /** Keeps `development-keys.json`, `development-root.pem` and `collateral.json`; made with mode 0700 when absent. */
  data_dir: string
  /** Exact text of the app-compose.json the imaginary machine booted. */
  app_compose: string
  knobs?: Partial<StandInKnobs>
}

export type StandInAgent = {
  /** Path of the unix socket; give it to `openEnclave`. */
  readonly socket: string
  /** The development root, PEM, for verifiers that accept this machine. */
  readonly root_pem: string
  /** 64 hex digits of SHA-256 of `app_compose`. */
  readonly compose_hash: string
  /** May be changed while the agent runs. */
  readonly knobs: StandInKnobs
  /** The collateral a verifier needs in addition to the root, signed now. */
  collateral(): Collateral
  /** Drops every connection and serves again on the same socket. */
  restart(): Promise<void>
  close(): Promise<void>
}

/** Longest path a unix socket address holds on every system (sockaddr_un of macOS: 104 bytes with its end). */
const SOCKET_PATH_MAX = 103

/** @throws when another agent serves the folder or its key file is damaged. */
export async function openStandInAgent(options: StandInOptions): Promise<StandInAgent> {
  const { data_dir, app_compose } = options
  mkdirSync(data_dir, { recursive: true, mode: 0o700 })
  const compose_hash = sha256(utf8(app_compose))
  const keys = loadKeys(data_dir, compose_hash)
  const authorities = issueAuthorities(data_dir, keys, Date.now())
  const knobs: StandInKnobs = { ...NO_FAULTS, ...options.knobs }
  const collateral = () => issueCollateral(keys, authorities, knobs, Date.now())
  storeRoot(data_dir, authorities.root)
  writeFileSync(join(data_dir, 'collateral.json'), `${JSON.stringify(collateral(), null, 2)}\n`)

  const socket = socketPath(data_dir)
  await removeStaleSocket(socket)
  const quoting_enclave = startQuotingEnclave(authorities, keys.pck)
  const methods = agentMethods({ keys, quoting_enclave, app_compose, compose_hash, knobs })
  let server = serveAgent(socket, methods)
  const stop = async () => {
    await server.stop()
    rmSync(socket, { force: true })
  }
  return {
    socket,
    root_pem: pemOfDer(authorities.root, 'CERTIFICATE'),
    compose_hash: toHex(compose_hash),
    knobs,
    collateral,
    async restart() {
      await stop()
      server = serveAgent(socket, methods)
    },
    close: stop,
  }
}

function socketPath(data_dir: string): string {
  const path = join(data_dir, 'agent.sock')
  if (Buffer.byteLength(path) <= SOCKET_PATH_MAX) return path
  const short_dir = mkdtempSync(join(tmpdir(), 'tacit-'))
  chmodSync(short_dir, 0o700)
  return join(short_dir, 'agent.sock')
}

/** A process that was killed leaves its socket behind. */
async function removeStaleSocket(socket: string): Promise<void> {
  if (!existsSync(socket)) return
  const alive = await fetch('http://dstack/Version', {
    unix: socket,
    signal: AbortSignal.timeout(1_000),
  }).then(
    () => true,
    () => false,
  )
  if (alive)
    throw new Error(
      `a venue runs on this folder: another stand-in agent answers at ${socket}; stop it, or set TACIT_DATA_DIR to another folder`,
    )
  rmSync(socket, { force: true })
}
