/** Joins the parts into one running venue: enclave, hashing, chain, engine, app and listeners, opened in this order. */

import { join } from 'node:path'
import { type Enclave, KEY_PATHS, type VenueBinding } from '../enclave/contract'
import { openEnclave } from '../enclave/index'
import {
  type ChainPort,
  type ClockPort,
  type FollowingNode,
  type Fronts,
  type HashPort,
  openHashing,
  openOperatorCheck,
  openVenue,
  portableCode,
  VaultAbsent,
  type Venue,
} from '../engine/index'
import { encodeBase58 } from '../protocol/base58'
import { fromHex } from '../protocol/bytes'
import { signingKey } from '../protocol/ed25519'
import { Refusal } from '../protocol/refusals'
import type { SystemStatus } from '../protocol/wire/public'
import { createApp } from './edge/app'
import { commonHeaders, requestId } from './edge/headers'
import type { Log } from './edge/log'
import { openMeters } from './edge/meters'
import { problemResponse, refusalOf } from './edge/problem'
import { PROOF_STOP_GRACE_MS, START_RETRY_MS, STATUS_LOOK_MS, STOP_GRACE_MS } from './limits'
import { type AppOf, endNode, type OpenNode, type OperatorOf, openNode } from './links/open_node'
import { operatorApp } from './operator/operator'
import { openDocuments } from './reference/page'
import { keepCollateral, MachineUnjudged, type SelfCheckTerms, selfCheck } from './self_check'
import type { Config } from './settings/config'
import { type Listener, listen, openCertificates, requireFreePort, rotating, SELF_SIGNED } from './tls/listen'

export type ProcessParts = {
  config: Config
  version: string
  log: Log
  clock: ClockPort
  /** The own machine is judged by these. */
  self_check: SelfCheckTerms
  openChain(enclave: Enclave, hash: HashPort): Promise<ChainPort>
  /** Ends the process at once: its memory may be ahead of the disk. */
  fatal(error: Error): void
  /** Called on the operator's request. */
  drain(): void
  /** Called by a node of a cluster before it follows, with the function that ends it in order. */
  following(stop: () => Promise<void>): void
}
export type Running = {
  readonly venue: Venue
  readonly enclave: Enclave
  readonly listener: Listener
  readonly operator: Listener
  /** Drains the venue, closes sockets with `bye`, waits for pending requests, then releases everything. */
  stop(): Promise<void>
}

/** A venue whose journal the chain is ahead of opens no epoch, and serves. */
async function bindEpoch(enclave: Enclave, binding: VenueBinding): Promise<void> {
  if (binding.epoch === 0) enclave.follow(binding)
  else await enclave.bind(binding)
}

async function openOwn({ config, log }: ProcessParts): Promise<Enclave> {
  // Checked before any durable effect: an epoch is opened only once.
  for (const options of [config.listen, config.operator_listen]) requireFreePort(options)
  const enclave = await openEnclave({
    kind: config.engine.enclave,
    agent: { socket: config.dstack_socket },
    tls: { names: config.tls_names },
  })
  const { compose_hash } = enclave.identity
  const fee_payer = encodeBase58(signingKey(await enclave.deriveKey(KEY_PATHS.fees)).public_key)
  for (const reason of portableCode()) log.write('warn', 'code_portable', { reason })
  log.write('info', 'enclave_open', { mode: enclave.identity.kind, compose_hash, fee_payer })
  return enclave
}

export async function joinProcess(parts: ProcessParts): Promise<Running> {
  const { config, version, log, clock } = parts
  const enclave = await openOwn(parts)
  const { self_check_reasons, collateral } = await judgeOwn(parts, enclave)
  const documents = await openDocuments(version)
  const { operator_key } = config.engine
  const ends = () => ({ certificate_ms: enclave.tls.not_after_ms, collateral_ms: collateral.endsMs() })
  const operatorOf: OperatorOf = (of, venue_id) => {
    const check = openOperatorCheck({ operator_key, venue: venue_id, clock })
    return operatorApp({ ...of, log, clock, documents, check, ends, drain: parts.drain })
  }
  const nodes: OpenNode[] = []
  const options = { version, clock, log, ...(config.swagger ? { documents } : {}) }
  const appOf: AppOf = (venue, of) => createApp({ venue, enclave, options: { ...options, ...of } })
  const led = Promise.withResolvers<Running>()
  const following: Following = (node, chain) => {
    nodes.push(openNode({ parts, enclave, operatorOf, appOf, node, chain }))
    parts.following(() => endNode(node, nodes[0]!, led.promise))
    return nodes[0]!.fronts
  }
  const judged = { self_check_reasons, collateral }
  const venue = await openEngine(parts, enclave, judged, following).catch(async (error) => {
    await nodes[0]?.stop(0)
    throw error
  })
  const { epoch, venue: name } = venue.identity()
  const venue_id = fromHex(name, 32)!
  await bindEpoch(enclave, { venue: venue_id, epoch, slot: () => venue.time().slot })
  log.write('info', 'venue_open', { venue: name, epoch })

  const { tls } = enclave
  const followed = nodes[0]?.lead(venue)
  const app = followed?.app ?? appOf(venue, {})
  const listener = followed?.listener ?? listen(app, { ...config.listen, tls })
  const operator =
    followed?.operator ?? listen(operatorOf({ venue, app }, venue_id), { ...config.operator_listen, tls })
  log.write('info', 'listening', { port: listener.port, operator_port: operator.port, version })
  const { matching, reasons } = venue.status()
  if (matching !== 'running') log.write('warn', 'not_trading', { reason: reasons.join('; ') })
  const stopWatching = watchStatus(() => venue.status(), log, STATUS_LOOK_MS)
  const source = await certificatesOf(parts, enclave, listener)
  const stopRotating = rotating({ enclave, listeners: [listener, operator], clock, log, source })
  const running: Running = {
    venue,
    enclave,
    listener,
    operator,
    async stop() {
      stopRotating()
      stopWatching()
      collateral.stop()
      log.write('info', 'draining', { sockets: app.sockets.count() })
      await venue.drain()
      app.sockets.byeAll('upgrade', STOP_GRACE_MS)
      await Promise.all([listener.stop(STOP_GRACE_MS), operator.stop(STOP_GRACE_MS)])
      app.close()
      await venue.close()
      await enclave.close()
      log.write('info', 'stopped')
    },
  }
  led.resolve(running)
  return running
}

/** Self-signed unless the settings name an authority. */
async function certificatesOf({ clock, config, log }: ProcessParts, enclave: Enclave, listener: Listener) {
  const { acme, tls_names: names } = config
  const { data_dir } = config.engine
  return acme === undefined
    ? SELF_SIGNED
    : openCertificates({ acme, names, data_dir, enclave, listener, clock, log })
}

type Following = (node: FollowingNode, chain: ChainPort) => Fronts

/** The verdict on the own machine, and the job that keeps its collateral from here on. */
async function judgeOwn({ clock, config, log, self_check: terms }: ProcessParts, enclave: Enclave) {
  const { data_dir } = config.engine
  const judge = () => selfCheck({ enclave, terms, data_dir, now_ms: clock.unixMs() })
  const first = await proveUntilOpen(judge, { at: config.listen, enclave, log })
  return { self_check_reasons: first.reasons, collateral: keepCollateral({ first, judge, clock, log }) }
}

/** Each derived key has one purpose and is the same for every boot of the app. */
async function openEngine(
  parts: ProcessParts,
  enclave: Enclave,
  { self_check_reasons, collateral }: Awaited<ReturnType<typeof judgeOwn>>,
  following: Following,
): Promise<Venue> {
  const { config, version, clock, fatal, log } = parts
  const { data_dir } = config.engine
  const [journal_key, tie_break_key, credential_key, hashing_key] = await Promise.all([
    enclave.deriveKey(KEY_PATHS.journal),
    enclave.deriveKey(KEY_PATHS.tie_break),
    enclave.deriveKey(KEY_PATHS.credential),
    enclave.deriveKey(KEY_PATHS.hashing),
  ])
  const hash = await openHashing({ dir: join(data_dir, 'hashing'), key: hashing_key, fatal })
  const chain = await proveUntilOpen(() => parts.openChain(enclave, hash), {
    at: config.listen,
    enclave,
    log,
  })
  const { cluster } = config.engine
  const url = cluster?.url?.replace('{instance_id}', enclave.identity.instance_id) ?? ''
  // A start waits for the chain as long as it takes, and no status of the venue says so yet.
  const chainStatus = () => ({ ready: chain.health().reasons.length === 0, ...chain.health() })
  const stopWatching = watchStatus(chainStatus, log, STATUS_LOOK_MS)
  return openVenue({
    config: {
      ...config.engine,
      ...(cluster && { cluster: { ...cluster, url } }),
      compose_hash: enclave.identity.compose_hash,
      tacit_version: version,
      self_check_reasons,
    },
    ports: {
      clock,
      hash,
      chain,
      keys: {
        journal_key,
        tie_break_key,
        credential_key,
        settlement_seed: enclave.settlement_seed,
        statement_seed: enclave.statement_seed,
      },
      warnings: () => (collateral.isEnding() ? ['collateral_ends'] : []),
      fatal,
      following: (node) => following(node, chain),
    },
  }).finally(stopWatching)
}

/** Looks at once and then at intervals; returns the end of it. */
export function watchStatus(
  status: () => Pick<SystemStatus, 'ready' | 'reasons'>,
  log: Log,
  every_ms: number,
): () => void {
  let last = 'ready '
  const look = () => {
    const { ready, reasons } = status()
    const reason = reasons.join('; ')
    const code = ready ? 'ready' : 'not_ready'
    if (`${code} ${reason}` === last) return
    last = `${code} ${reason}`
    log.write(ready ? 'info' : 'warn', 'status_changed', { code, reason })
  }
  look()
  const timer = setInterval(look, every_ms)
  timer.unref()
  return () => clearInterval(timer)
}

/**
 * Serves the proof of the epoch authority until the start can go on: until the vault exists and has announced that key, which
 * the admin does last, after verifying the quote over it, and until the own machine can be judged. No restart is needed.
 */

type AwaitingParts = {
  at: { hostname: string; port: number }
  enclave: Pick<Enclave, 'keyProof' | 'tls'>
  log: Log
  /** Interval of attempts; default START_RETRY_MS. */
  retry_ms?: number
  /** Called once it listens. */
  listening?: (port: number) => void
}

/** Calls `open` until it throws neither VaultAbsent nor MachineUnjudged; any other error is thrown. */
export async function proveUntilOpen<T>(open: () => Promise<T>, parts: AwaitingParts): Promise<T> {
  let listener: Listener | undefined
  try {
    for (;;) {
      try {
        return await open()
      } catch (error) {
        if (!(error instanceof VaultAbsent || error instanceof MachineUnjudged)) throw error
        listener ??= announce(parts, error)
      }
      await Bun.sleep(parts.retry_ms ?? START_RETRY_MS)
    }
  } finally {
    await listener?.stop(PROOF_STOP_GRACE_MS)
  }
}

function announce({ at, enclave, log, listening }: AwaitingParts, error: Error): Listener {
  const meters = openMeters()
  const listener = listen(
    {
      async fetch(request) {
        const request_id = requestId(request)
        try {
          const body = await answerOf(request, enclave)
          return Response.json(body, { headers: commonHeaders(request_id) })
        } catch (error) {
          return problemResponse(refusalOf(error, log, { request_id }), request_id, meters)
        }
      },
    },
    { ...at, tls: enclave.tls },
  )
  const event = error instanceof VaultAbsent ? 'vault_absent' : 'machine_unjudged'
  log.write('warn', event, { port: listener.port, reason: error.message })
  listening?.(listener.port)
  return listener
}

async function answerOf(request: Request, enclave: Pick<Enclave, 'keyProof'>): Promise<object> {
  const { pathname, searchParams } = new URL(request.url)
  if (request.method !== 'GET') throw new Refusal('settlement_unavailable')
  if (pathname === '/health') return { status: 'ok' }
  if (pathname !== '/attestation') throw new Refusal('settlement_unavailable')
  return enclave.keyProof('epoch_authority', searchParams.get('reportData') ?? undefined)
}
