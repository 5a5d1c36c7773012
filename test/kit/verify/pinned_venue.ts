/**
 * A venue under a policy that names every demand there is: keys from a KMS with its contract, two RPC operators, a machine
 * whose place a provider and an inspector with a log state. An honest one is `verified`, without a skip.
 */

import { createHash } from 'node:crypto'
import { keccak_256 } from '@noble/hashes/sha3.js'
import type { LocationStatement } from '../../../client/verify/evidence_bundle'
import type { VerificationPolicy } from '../../../client/verify/policy'
import { encodeBase58 } from '../../../protocol/base58'
import { encodeLocation, encodeLogHead, type LocationBody } from '../../../protocol/bodies/statements'
import { fromHex, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { publicKeyOf, sign } from '../../../protocol/sign'
import { parseQuote } from '../../../protocol/tdx/quote'
import { ACCOUNT_LAYOUTS, decodeAnnouncement } from '../../../protocol/vault/accounts'
import { announcementAddress } from '../../../protocol/vault/admin'
import type { Attestation, Info } from '../../../protocol/wire/public'
import { PPID, XFAM } from '../../../sandbox/enclave/machine'
import { fillIn } from '../../../tools/manifest/main'
import { COMMITTED_COMPOSE, manifestOf, OPERATOR_VALUES } from './hostile_manifests'
import { type Lie, lie, withClaim } from './lying_machine'
import { changedPolicy, openSite, type Site } from './site'

const PROVIDER = { name: 'kms', id: '3059'.repeat(20) }
const OWNER = `0x${'0a'.repeat(20)}`
const AUTHORITY_SEED = new Uint8Array(32).fill(0x71)
const DAY_S = 86_400

/** State of the app's contract and its owner on a loopback JSON-RPC. */
type Contract = { allowed: boolean; owner: string; min_delay_s: number | undefined }
/** The authority's statement; changed members lie. */
type Authority = { change: Partial<LocationBody>; seed: Uint8Array; silent: boolean }

export type PinnedVenue = {
  site: Site
  policy: VerificationPolicy
  app_compose: string
  contract: Contract
  authority: Authority
  inspection: Inspection
  /** Answers as the honest KMS venue does but for the lie, until `site.restore()`. */
  answerAs(more?: Lie): void
  /** Honest contract and authority again. */
  restore(): void
  close(): Promise<void>
}

const RPC_URLS = 'SOLANA_RPC_URL=https://rpc.one.example/key,https://two.example/v1'

/** The project's compose file, filled in, under the KMS. */
function manifest(): string {
  const values = OPERATOR_VALUES.map((value) => (value.startsWith('SOLANA_RPC_URL=') ? RPC_URLS : value))
  return manifestOf(fillIn(COMMITTED_COMPOSE, values), { key_provider_id: PROVIDER.id })
}

export async function openPinnedVenue(): Promise<PinnedVenue> {
  const app_compose = manifest()
  const site = await openSite({}, app_compose)
  const info = JSON.parse(await site.answers.get('/info')!(undefined)) as Info
  const contract = honestContract()
  const authority = honestAuthority()
  const inspection = honestInspection()
  const node = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) => shared(await answerCall(request, info, contract)),
  })
  const hosts = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request) => shared(answerLocation(request, authority, inspection)),
  })
  const base = lieOf()
  const policy = await policyOf(site, info, node.port!, hosts.port!, base)
  announceProvider(site)
  return {
    site,
    app_compose,
    contract,
    authority,
    inspection,
    policy,
    answerAs(more = {}) {
      lie(site, { ...base, ...more, log: (events) => (more.log ?? kept)(base.log!(events).shown) })
    },
    restore() {
      site.restore()
      Object.assign(contract, honestContract())
      Object.assign(authority, honestAuthority())
      Object.assign(inspection, honestInspection())
    },
    async close() {
      await node.stop(true)
      await hosts.stop(true)
      await site.close()
    },
  }
}

/** The vault names the KMS, as if its epochs had opened under it. */
function announceProvider({ chain }: Site): void {
  const { machine, program_id } = chain
  const address = encodeBase58(announcementAddress(program_id!, { list: 'key_provider' }))
  const account = machine.bank.newest(address)!
  const record = decodeAnnouncement(account.data)!
  record.value.set(sha256(utf8(JSON.stringify(PROVIDER))))
  machine.install([[address, { ...account, data: ACCOUNT_LAYOUTS.announcement.encode(record) }]])
}

const kept: NonNullable<Lie['log']> = (events) => ({ extended: events, shown: events })
const lieOf = (): Lie => ({ log: withClaim('key-provider', toHex(utf8(JSON.stringify(PROVIDER)))) })
const honestContract = (): Contract => ({ allowed: true, owner: OWNER, min_delay_s: 2 * DAY_S })
const honestAuthority = (): Authority => ({ change: {}, seed: AUTHORITY_SEED, silent: false })

async function policyOf(
  site: Site,
  info: Info,
  node_port: number,
  authority_port: number,
  base: Lie,
): Promise<VerificationPolicy> {
  lie(site, base)
  const attestation = JSON.parse(await site.answers.get('/attestation')!(undefined)) as Attestation
  site.restore()
  const { mr_td, rtmr } = parseQuote(fromHex(attestation.quote, attestation.quote.length / 2)!).report
  const [mrtd, rtmr0, rtmr1, rtmr2] = [mr_td, ...rtmr].map(toHex) as [string, string, string, string]
  const { evidence } = await site.connect()
  return changedPolicy(site.policy, {
    permitted_skips: [],
    environment_names: ['TACIT_FEE_ANCHOR'],
    registers: [{ mrtd, rtmr0, rtmr1, rtmr2, xfam: toHex(XFAM) }],
    xfam_mask: toHex(XFAM),
    app_ids: [info.app_id],
    key_providers: [PROVIDER],
    ppids: [toHex(PPID)],
    kms: { rpc_url: `http://127.0.0.1:${node_port}`, owners: [OWNER], timelock_min_s: DAY_S },
    rpc_operators: {
      operators: [
        { name: 'one', hosts: ['rpc.one.example'] },
        { name: 'two', hosts: ['two.example'] },
      ],
      minimum: 2,
    },
    location: {
      authorities: [
        {
          name: 'provider',
          key: encodeBase58(publicKeyOf(AUTHORITY_SEED)),
          url: `http://127.0.0.1:${authority_port}`,
          levels: ['registry', 'inspected'],
        },
        {
          name: 'inspector',
          key: encodeBase58(publicKeyOf(INSPECTOR.key)),
          url: `http://127.0.0.1:${authority_port}/inspected/`,
          log: { key: encodeBase58(publicKeyOf(INSPECTOR.log)), size: SEEN, root: toHex(seenRoot()) },
        },
      ],
      minimum: 2,
    },
    chain: {
      ...site.policy.chain!,
      exit_delay_min_s: info.exit_delay_s,
      admins: [adminOf(evidence.chain!.config.data)],
    },
  })
}

/** Byte 80 of the config account. */
const adminOf = (data: string): string =>
  encodeBase58(new Uint8Array(Buffer.from(data, 'base64')).slice(80, 112))

const selector = (text: string): string => `0x${toHex(keccak_256(utf8(text)).subarray(0, 4))}`
const word = (value: number | string): string =>
  `0x${(typeof value === 'number' ? value.toString(16) : value.slice(2)).padStart(64, '0')}`

/** A page of another origin may ask: a browser first asks whether it may. */
function shared(answer: Response): Response {
  answer.headers.set('access-control-allow-origin', '*')
  answer.headers.set('access-control-allow-headers', 'content-type')
  return answer
}

async function answerCall(request: Request, info: Info, contract: Contract): Promise<Response> {
  if (request.method === 'OPTIONS') return new Response('')
  const { params } = (await request.json()) as { params: [{ to: string; data: string }, string] }
  const [{ to, data }] = params
  const at_app = to === `0x${info.app_id}`
  let result = '0x'
  if (at_app && data.startsWith(selector('allowedComposeHashes(bytes32)'))) {
    const asked = data.slice(10) === info.compose_hash
    result = word(asked && contract.allowed ? 1 : 0)
  }
  if (at_app && data === selector('owner()')) result = word(contract.owner)
  // An owner without a delay is an ordinary account: a call gives no data.
  if (to === contract.owner && data === selector('getMinDelay()') && contract.min_delay_s !== undefined)
    result = word(contract.min_delay_s)
  return Response.json({ jsonrpc: '2.0', id: 1, result })
}

/** `/PPID/INSTANCE` of the provider, `/inspected/PPID/INSTANCE/SIZE` of the inspector. */
function answerLocation(
  request: Request,
  { change, seed, silent }: Authority,
  inspection: Inspection,
): Response {
  const [ppid, instance_id, from] = new URL(request.url).pathname
    .replace('/inspected', '')
    .slice(1)
    .split('/')
  const machine = { ppid: fromHex(ppid!, 16)!, instance_id: fromHex(instance_id!, 20)! }
  if (from !== undefined) return Response.json(inspect(machine, Number(from), inspection))
  if (silent) return new Response('', { status: 404 })
  const now_s = BigInt(Math.floor(Date.now() / 1000))
  const body = encodeLocation({
    ...machine,
    level: 'registry',
    issued_s: now_s - 60n,
    expires_s: now_s + 3_600n,
    site: 'eu-fra1 rack 12',
    ...change,
  })
  return Response.json({ body: toHex(body), signature: toHex(sign(seed, body)) })
}

const hash = (...parts: Uint8Array[]): Uint8Array => {
  const state = createHash('sha256')
  for (const part of parts) state.update(part)
  return new Uint8Array(state.digest())
}
export const leafOf = (...parts: Uint8Array[]): Uint8Array => hash(Uint8Array.of(0), ...parts)
const nodeOf = (left: Uint8Array, right: Uint8Array) => hash(Uint8Array.of(1), left, right)
/** Largest power of two below `count`. */
const split = (count: number): number => 2 ** Math.ceil(Math.log2(count) - 1)

/** RFC 6962 section 2.1. */
export function rootOf(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 1) return leaves[0]!
  const left = split(leaves.length)
  return nodeOf(rootOf(leaves.slice(0, left)), rootOf(leaves.slice(left)))
}

/** Section 2.1.1. */
export function pathOf(leaves: readonly Uint8Array[], index: number): Uint8Array[] {
  if (leaves.length === 1) return []
  const left = split(leaves.length)
  const [low, high] = [leaves.slice(0, left), leaves.slice(left)]
  return index < left ? [...pathOf(low, index), rootOf(high)] : [...pathOf(high, index - left), rootOf(low)]
}

/** Section 2.1.2. */
export function consistencyOf(leaves: readonly Uint8Array[], from: number, known = true): Uint8Array[] {
  if (from === leaves.length) return known ? [] : [rootOf(leaves)]
  const left = split(leaves.length)
  const [low, high] = [leaves.slice(0, left), leaves.slice(left)]
  return from <= left
    ? [...consistencyOf(low, from, known), rootOf(high)]
    : [...consistencyOf(high, from - left, false), rootOf(low)]
}

const INSPECTOR_SEED = new Uint8Array(32).fill(0x72)
const LOG_SEED = new Uint8Array(32).fill(0x73)
export const INSPECTOR = { key: INSPECTOR_SEED, log: LOG_SEED }
const ENTRIES = 7
const INDEX = 4
/** Size of the head that the policy pins. */
const SEEN = 3
const others = (fill: number): Uint8Array[] =>
  Array.from({ length: ENTRIES }, (_, at) => leafOf(Uint8Array.of(fill, at)))
const seenRoot = (): Uint8Array => rootOf(others(0).slice(0, SEEN))

/** An honest authority's answer, and the ways in which one lies. */
export type Inspection = {
  /** Members of the statement. */
  change: Partial<LocationBody>
  /** First byte of the other entries: another one is another log. */
  history: number
  /** The log has this machine's statement. */
  logged: boolean
  seeds: typeof INSPECTOR
  alter: (statement: LocationStatement) => void
}
const honestInspection = (): Inspection => ({
  change: {},
  history: 0,
  logged: true,
  seeds: INSPECTOR,
  alter: () => {},
})

function inspect(
  machine: Pick<LocationBody, 'ppid' | 'instance_id'>,
  from: number,
  { change, history, logged, seeds, alter }: Inspection,
): LocationStatement {
  const now_s = BigInt(Math.floor(Date.now() / 1000))
  const body = encodeLocation({
    ...machine,
    level: 'inspected',
    issued_s: now_s - 60n,
    expires_s: now_s + 3_600n,
    site: 'cage 4',
    ...change,
  })
  const signature = sign(seeds.key, body)
  const leaves = others(history)
  if (logged) leaves[INDEX] = leafOf(body, signature)
  const head = encodeLogHead({ size: BigInt(ENTRIES), root: rootOf(leaves) })
  const hex = (nodes: Uint8Array[]) => nodes.map(toHex).join('')
  const statement: LocationStatement = {
    body: toHex(body),
    signature: toHex(signature),
    log: {
      head: toHex(head),
      signature: toHex(sign(seeds.log, head)),
      index: INDEX,
      path: hex(pathOf(leaves, INDEX)),
      consistency: hex(consistencyOf(leaves, from)),
    },
  }
  alter(statement)
  return statement
}
