/** Renews the TLS certificate in time, on every listener, with its evidence. */
import type { Enclave, TlsMaterial } from '../enclave/contract'
import type { ClockPort } from '../engine/ports'
import type { Listener } from './_listen'
import type { Log } from './_log'
import { placeOf } from './_problem'

/** Left to live when a self-signed certificate is renewed; a third of the 90 days it gets. */
export const RENEW_BEFORE_MS = 30 * 86_400_000

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
  check_ms: 3_600_000,
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
