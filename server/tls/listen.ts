/** Listens with TLS 1.3, replaces certificates without closing a socket, and renews them before they expire. */

import { join } from 'node:path'
import type { Server } from 'bun'
import { type Enclave, KEY_PATHS, type TlsMaterial } from '../../enclave/contract'
import {
  type ChallengeSolver,
  challengeCertificate,
  dnsSolver,
  type IssuedCertificate,
  issueCertificate,
  type SealedStore,
  sealCertificate,
  unsealCertificate,
} from '../../enclave/index'
import { ACME_DNS_CALL_MS } from '../../enclave/limits'
import type { ClockPort } from '../../engine/ports'
import { FRAME_BYTES_MAX } from '../../protocol/limits'
import { pemOfDer } from '../../protocol/x509/certificate'
import type { App } from '../edge/app'
import type { Log } from '../edge/log'
import { placeOf } from '../edge/problem'
import {
  BACKPRESSURE_BYTES_MAX,
  CERTIFICATE_CHECK_MS,
  IDLE_S,
  PUBLIC_CERTIFICATE_CHECK_MS,
  RENEW_BEFORE_MS,
} from '../limits'
import type { AcmeConfig } from '../settings/config'
import type { SocketData } from '../sockets/upgrade'
import { Accepted, type ChallengeAnswer, type Front, openFront } from './challenge_front'

type ListenOptions = {
  hostname: string
  port: number
  /** Absent: plain HTTP, for a listener that only this machine reaches. */
  tls?: TlsMaterial
  /** Of sockets; the runtime closes one that sends more. */
  frame_bytes_max?: number
}
export type Listener = {
  readonly port: number
  readonly url: string
  /** New connections get the new certificate; open ones stay open. */
  rotate(tls: TlsMaterial): void
  /**
   * Serves the answer of a TLS-ALPN-01 challenge on this port, next to the app. Resolves once it is served; the returned
   * function ends it. One challenge at a time.
   */
  answerChallenge(answer: ChallengeAnswer): Promise<() => Promise<void>>
  /** Stops accepting connections, waits at most `grace_ms` for pending requests, then closes all connections. */
  stop(grace_ms: number): Promise<void>
}

/** `server.reload` keeps the old certificate, so a new listener shares the port and the previous one drains. */
export function listen(app: Pick<App, 'fetch'>, options: ListenOptions): Listener {
  requireFreePort(options)
  let current = serve(app, options, options.port, options.tls)
  const draining = new Set<Server<SocketData>>()
  const port = current.port ?? options.port
  let material = options.tls
  let diverted = false
  let front: Front | undefined
  const fronted = new Accepted()
  let stopped = false
  const replaceBy = (server: Server<SocketData>) => {
    const replaced = current
    current = server
    draining.add(replaced)
    // Resolves when its last socket closes, which may take hours.
    void replaced.stop().then(() => draining.delete(replaced))
  }
  return {
    port,
    url: `${options.tls === undefined ? 'http' : 'https'}://${options.hostname}:${port}`,
    rotate(tls) {
      material = tls
      // During a challenge, its end installs the newest certificate.
      if (!diverted) replaceBy(serve(app, options, port, tls))
    },
    async answerChallenge(answer) {
      if (diverted) throw new Error('one challenge at a time')
      diverted = true
      const inner = serve(app, { ...options, hostname: '127.0.0.1' }, 0, material)
      const opening = openFront({ hostname: options.hostname, port }, inner.port!, answer, fronted)
      const opened = await opening.catch((error) => {
        diverted = false
        void inner.stop(true)
        throw error
      })
      front = opened
      replaceBy(inner)
      return async () => {
        if (stopped) return
        // Close the front before the inner listener: accepted connections must still reach it.
        const after = serve(app, options, port, material)
        await opened.close()
        replaceBy(after)
        front = undefined
        diverted = false
      }
    },
    async stop(grace_ms) {
      stopped = true
      const servers = [current, ...draining]
      const drained = Promise.all([front?.close(), ...servers.map((server) => server.stop())])
      let timer: Timer | undefined
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, grace_ms)
      })
      await Promise.race([drained, late])
      clearTimeout(timer)
      await Promise.all(servers.map((server) => server.stop(true)))
    },
  }
}

/**
 * Rotation shares the port, which would also let a second venue on this machine take half of the connections. A plain socket
 * does not share and fails while the port is in use. @throws Error naming the port.
 */
export function requireFreePort({ hostname, port }: Pick<ListenOptions, 'hostname' | 'port'>): void {
  if (port === 0) return
  try {
    Bun.listen({ hostname, port, socket: { data() {} } }).stop(true)
  } catch (error) {
    const { code = 'unknown' } = error as { code?: string }
    const why = code === 'EADDRINUSE' ? 'is in use' : `cannot be opened (${code})`
    throw new Error(
      `port ${port} of ${hostname} ${why}: stop the other process, or set TACIT_LISTEN and TACIT_OPERATOR_LISTEN to other ports`,
    )
  }
}

/** TLS 1.3 on the wire (RFC 8446); the runtime takes only the number. */
const TLS_1_3 = 0x0304

function serve(
  app: Pick<App, 'fetch'>,
  options: ListenOptions,
  port: number,
  tls: TlsMaterial | undefined,
): Server<SocketData> {
  return Bun.serve<SocketData>({
    hostname: options.hostname,
    port,
    reusePort: tls !== undefined,
    // The app answers a large body itself, with a problem document, before the runtime reads it.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    idleTimeout: IDLE_S,
    development: false,
    ...(tls === undefined
      ? {}
      : { tls: { cert: tls.cert_pem, key: tls.key_pem, minVersion: TLS_1_3 } as Bun.TLSOptions }),
    fetch: (request, server) => app.fetch(request, server),
    websocket: {
      maxPayloadLength: options.frame_bytes_max ?? FRAME_BYTES_MAX,
      idleTimeout: IDLE_S,
      sendPings: true,
      perMessageDeflate: false,
      backpressureLimit: BACKPRESSURE_BYTES_MAX,
      closeOnBackpressureLimit: false,
      open: (socket) =>
        socket.data.opened({
          send: (text) => socket.sendText(text),
          sendBytes: (bytes) => socket.sendBinary(bytes),
          getBufferedAmount: () => socket.getBufferedAmount(),
          cork: (send) => void socket.cork(send),
          close: (code, reason) => socket.close(code, reason),
          terminate: () => socket.terminate(),
        }),
      message: (socket, message) => socket.data.message(message),
      ping: (socket) => socket.data.control(),
      pong: (socket) => socket.data.control(),
      drain: (socket) => socket.data.drained(),
      close: (socket, code) => socket.data.closed(code),
    },
  })
}

/** Source of new certificates. */
type CertificateSource = {
  /** Interval of checks; a failed renewal is retried at the next. */
  readonly check_ms: number
  /** Whether the served certificate must be replaced now. */
  isDue(served: TlsMaterial, unix_ms: number): boolean
  /** Undefined: the enclave makes a self-signed one. */
  next(): Promise<TlsMaterial | undefined>
}

export const SELF_SIGNED: CertificateSource = {
  check_ms: CERTIFICATE_CHECK_MS,
  isDue: ({ not_after_ms }, unix_ms) => not_after_ms - unix_ms <= RENEW_BEFORE_MS,
  next: async () => undefined,
}

type Rotated = {
  enclave: Pick<Enclave, 'tls' | 'rotateTls'>
  listeners: readonly Pick<Listener, 'rotate'>[]
  clock: ClockPort
  log: Log
  source: CertificateSource
}

/** Checks at once, then at the source's interval, with one renewal at a time. Returns a function that stops. */
export function rotating(rotated: Rotated): () => void {
  let renewing = false
  const check = () => {
    if (renewing) return
    renewing = true
    void renewIfDue(rotated).finally(() => {
      renewing = false
    })
  }
  const timer = setInterval(check, rotated.source.check_ms)
  timer.unref()
  check()
  return () => clearInterval(timer)
}

/** Replaces the certificate on every listener, with its evidence. */
export async function renewIfDue({ enclave, listeners, clock, log, source }: Rotated): Promise<void> {
  if (!source.isDue(enclave.tls, clock.unixMs())) return
  try {
    const tls = await enclave.rotateTls(await source.next())
    for (const listener of listeners) listener.rotate(tls)
    log.write('info', 'certificate_renewed', { not_after_ms: tls.not_after_ms })
  } catch (error) {
    log.write('error', 'certificate_not_renewed', placeOf(error))
  }
}

type CertificateParts = {
  acme: AcmeConfig
  names: readonly string[]
  data_dir: string
  enclave: Pick<Enclave, 'deriveKey'>
  /** The public listener, where a TLS-ALPN-01 challenge is answered. */
  listener: Pick<Listener, 'answerChallenge'>
  clock: ClockPort
  log: Log
}

/** Account and sealing keys are derived in the enclave; no key is on disk in plain text. */
export async function openCertificates(parts: CertificateParts): Promise<CertificateSource> {
  const { acme, names, data_dir, enclave, clock, log } = parts
  const account_seed = await enclave.deriveKey(KEY_PATHS.acme_account)
  const store: SealedStore = {
    path: join(data_dir, 'acme', 'certificate.sealed'),
    key: await enclave.deriveKey(KEY_PATHS.acme_certificate),
    directory_url: acme.directory_url,
    names,
  }
  const root = acme.root === '' ? {} : { root_pem: pemOfDer(Buffer.from(acme.root, 'base64'), 'CERTIFICATE') }
  const solver = acme.challenge === 'dns-01' ? dns(acme, root) : ownPort(parts)
  let held = unsealCertificate(store, clock.unixMs())
  let served: IssuedCertificate | undefined
  return {
    check_ms: PUBLIC_CERTIFICATE_CHECK_MS,
    isDue: (tls, unix_ms) =>
      served === undefined || tls.cert_pem !== served.cert_pem || isOld(served, unix_ms),
    async next() {
      if (held === undefined || isOld(held, clock.unixMs())) {
        const { directory_url } = acme
        held = await issueCertificate({ directory_url, ...root, account_seed, names, solver })
        log.write('info', 'certificate_issued', { account_url: held.account_url })
        sealCertificate(store, held)
      }
      served = held
      return served
    },
  }
}

/** The last third of its life is left for failed attempts. */
function isOld({ not_before_ms, not_after_ms }: IssuedCertificate, unix_ms: number): boolean {
  return unix_ms >= not_before_ms + ((not_after_ms - not_before_ms) * 2) / 3
}

function dns({ dns: api }: AcmeConfig, root: { root_pem?: string }): ChallengeSolver {
  return dnsSolver({ ...api, ...root, call_ms: ACME_DNS_CALL_MS })
}

function ownPort({ listener, clock }: CertificateParts): ChallengeSolver {
  return {
    type: 'tls-alpn-01',
    present: ({ name, key_authorization }) =>
      listener.answerChallenge(challengeCertificate(name, key_authorization, clock.unixMs())),
  }
}
