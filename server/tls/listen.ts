/** Listens with TLS 1.3, changes certificates without losing a socket, drains before it stops. */

import type { Server } from 'bun'
import type { Enclave, TlsMaterial } from '../../enclave/contract'
import type { ClockPort } from '../../engine/ports'
import { FRAME_BYTES_MAX } from '../../protocol/limits'
import type { App } from '../edge/app'
import type { Log } from '../edge/log'
import { placeOf } from '../edge/problem'
import {
  BACKPRESSURE_BYTES_MAX,
  CERTIFICATE_LOOK_MS,
  IDLE_S,
  RENEW_BEFORE_MS,
  REQUEST_BYTES_MAX,
} from '../limits'
import type { SocketData } from '../sockets/upgrade'
import { type ChallengeAnswer, openFront } from './challenge_front'

// Listens with TLS 1.3 for one app; changes certificates without losing a socket; drains before it stops.

/** TLS 1.3 on the wire (RFC 8446); the runtime takes the number only. */
const TLS_1_3 = 0x0304

type ListenOptions = {
  hostname: string
  port: number
  /** Absent: plain HTTP, for a listener nobody but this machine reaches. */
  tls?: TlsMaterial
}
export type Listener = {
  readonly port: number
  readonly url: string
  /** New connections get the new certificate; open ones live on. */
  rotate(tls: TlsMaterial): void
  /**
   * Lets an authority see the answer of a TLS-ALPN-01 challenge on this port while everybody else is served as before.
   * Resolves once it can be seen; the result ends it. One at a time.
   */
  answerChallenge(answer: ChallengeAnswer): Promise<() => Promise<void>>
  /** Stops taking connections, waits for requests under way at most `grace_ms`, then closes what is left. */
  stop(grace_ms: number): Promise<void>
}

/** `server.reload` keeps the old certificate, so a second listener takes the port and the first one drains. */
export function listen(app: Pick<App, 'fetch'>, options: ListenOptions): Listener {
  requireFreePort(options)
  let current = serve(app, options, options.port, options.tls)
  const draining = new Set<Server<SocketData>>()
  const port = current.port ?? options.port
  let material = options.tls
  let diverted = false
  const replaceBy = (server: Server<SocketData>) => {
    const replaced = current
    current = server
    draining.add(replaced)
    // Resolves once its last socket is gone, which may be hours from now.
    void replaced.stop().then(() => draining.delete(replaced))
  }
  return {
    port,
    url: `${options.tls === undefined ? 'http' : 'https'}://${options.hostname}:${port}`,
    rotate(tls) {
      material = tls
      // The end of a challenge puts the newest certificate in place.
      if (!diverted) replaceBy(serve(app, options, port, tls))
    },
    async answerChallenge(answer) {
      if (diverted) throw new Error('one challenge at a time')
      diverted = true
      const inner = serve(app, { ...options, hostname: '127.0.0.1' }, 0, material)
      const opening = openFront({ hostname: options.hostname, port }, inner.port!, answer)
      const front = await opening.catch((error) => {
        diverted = false
        void inner.stop(true)
        throw error
      })
      replaceBy(inner)
      return async () => {
        // The inner listener stays until the last connection that was taken has reached it.
        const after = serve(app, options, port, material)
        await front.close()
        replaceBy(after)
        diverted = false
      }
    },
    async stop(grace_ms) {
      const servers = [current, ...draining]
      const drained = Promise.all(servers.map((server) => server.stop()))
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
 * Certificates rotate by sharing the port, and sharing would also let a second venue take half of the callers: a plain
 * socket that is not shared finds the port taken. @throws Error naming the port.
 */
export function requireFreePort({ hostname, port }: Pick<ListenOptions, 'hostname' | 'port'>): void {
  if (port === 0) return
  try {
    Bun.listen({ hostname, port, socket: { data() {} } }).stop(true)
  } catch (error) {
    const { code = 'unknown' } = error as { code?: string }
    const why = code === 'EADDRINUSE' ? 'is in use' : `cannot be opened (${code})`
    throw new Error(`port ${port} of ${hostname} ${why}: TACIT_LISTEN and TACIT_OPERATOR_LISTEN name others`)
  }
}

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
    maxRequestBodySize: REQUEST_BYTES_MAX,
    idleTimeout: IDLE_S,
    development: false,
    ...(tls === undefined
      ? {}
      : { tls: { cert: tls.cert_pem, key: tls.key_pem, minVersion: TLS_1_3 } as Bun.TLSOptions }),
    fetch: (request, server) => app.fetch(request, server),
    websocket: {
      maxPayloadLength: FRAME_BYTES_MAX,
      idleTimeout: IDLE_S,
      sendPings: true,
      perMessageDeflate: false,
      backpressureLimit: BACKPRESSURE_BYTES_MAX,
      closeOnBackpressureLimit: false,
      open: (socket) =>
        socket.data.opened({
          send: (text) => socket.sendText(text),
          getBufferedAmount: () => socket.getBufferedAmount(),
          cork: (send) => void socket.cork(send),
          close: (code, reason) => socket.close(code, reason),
          terminate: () => socket.terminate(),
        }),
      message: (socket, message) => socket.data.message(message),
      drain: (socket) => socket.data.drained(),
      close: (socket, code) => socket.data.closed(code),
    },
  })
}

// Renews the TLS certificate in time, on every listener, with its evidence.

/** Where certificates come from. */
export type CertificateSource = {
  /** Time between two looks; a failed renewal is tried again at the next. */
  readonly check_ms: number
  /** Whether the served certificate is to be replaced now. */
  isDue(served: TlsMaterial, unix_ms: number): boolean
  /** Undefined: the enclave signs one itself. */
  next(): Promise<TlsMaterial | undefined>
}

export const SELF_SIGNED: CertificateSource = {
  check_ms: CERTIFICATE_LOOK_MS,
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

/** Looks at once and then regularly; one renewal at a time. Returns how to stop. */
export function rotating(rotated: Rotated): () => void {
  let under_way = false
  const look = () => {
    if (under_way) return
    under_way = true
    void renewIfDue(rotated).finally(() => {
      under_way = false
    })
  }
  const timer = setInterval(look, rotated.source.check_ms)
  timer.unref()
  look()
  return () => clearInterval(timer)
}

export async function renewIfDue({ enclave, listeners, clock, log, source }: Rotated): Promise<void> {
  if (!source.isDue(enclave.tls, clock.unixMs())) return
  try {
    const tls = await enclave.rotateTls(await source.next())
    for (const listener of listeners) listener.rotate(tls)
    log.write('info', 'certificate_renewed', { not_after_ms: tls.not_after_ms })
  } catch (error) {
    log.write('error', 'certificate_not_renewed', { ...placeOf(error), ...reasonOf(error) })
  }
}

/** Steps and words of the certificate protocol are safe to show; other messages may quote what they failed on. */
function reasonOf(error: unknown): { reason?: string } {
  return error instanceof Error && error.name === 'AcmeFailure' ? { reason: error.message } : {}
}
