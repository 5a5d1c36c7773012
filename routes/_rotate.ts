/** Renews the TLS certificate in time, on every listener, with its evidence. */
import type { Enclave } from '../enclave/contract'
import type { ClockPort } from '../engine/ports'
import type { Listener } from './_listen'
import type { Log } from './_log'
import { placeOf } from './_problem'

const CHECK_MS = 3_600_000
/** Left to live when a certificate is renewed; a third of the 90 days it gets. */
export const RENEW_BEFORE_MS = 30 * 86_400_000

/** Returns how to stop. A failed renewal is tried again at the next check, long before the certificate ends. */
export function rotating(
  enclave: Pick<Enclave, 'tls' | 'rotateTls'>,
  listeners: readonly Pick<Listener, 'rotate'>[],
  clock: ClockPort,
  log: Log,
): () => void {
  const timer = setInterval(() => void renewIfDue(enclave, listeners, clock, log), CHECK_MS)
  timer.unref()
  return () => clearInterval(timer)
}

export async function renewIfDue(
  enclave: Pick<Enclave, 'tls' | 'rotateTls'>,
  listeners: readonly Pick<Listener, 'rotate'>[],
  clock: ClockPort,
  log: Log,
): Promise<void> {
  if (enclave.tls.not_after_ms - clock.unixMs() > RENEW_BEFORE_MS) return
  try {
    const tls = await enclave.rotateTls()
    for (const listener of listeners) listener.rotate(tls)
    log.write('info', 'certificate_renewed', { not_after_ms: tls.not_after_ms })
  } catch (error) {
    log.write('error', 'certificate_not_renewed', placeOf(error))
  }
}
