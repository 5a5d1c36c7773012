/**
 * Serves the proof of the settlement key until the vault exists: the admin reads the key here, verifies the quote over it,
 * and passes it to `initialize`. The venue then continues its start without a restart.
 */

import type { Enclave } from '../enclave/contract'
import { VaultAbsent } from '../engine/index'
import { Refusal } from '../protocol/refusals'
import { commonHeaders, requestId } from './edge/headers'
import type { Log } from './edge/log'
import { openMeters } from './edge/meters'
import { problemResponse, refusalOf } from './edge/problem'
import { VAULT_POLL_MS, VAULT_STOP_GRACE_MS } from './limits'
import { type Listener, listen } from './tls/listen'

type AwaitingParts = {
  at: { hostname: string; port: number }
  enclave: Pick<Enclave, 'signerProof' | 'tls'>
  log: Log
  /** Interval of polls of the chain; default VAULT_POLL_MS. */
  retry_ms?: number
  /** Called once it listens. */
  listening?: (port: number) => void
}

/** Calls `open` until the vault exists; any other error is thrown. */
export async function awaitVault<T>(open: () => Promise<T>, parts: AwaitingParts): Promise<T> {
  let listener: Listener | undefined
  try {
    for (;;) {
      try {
        return await open()
      } catch (error) {
        if (!(error instanceof VaultAbsent)) throw error
      }
      listener ??= announce(parts)
      await Bun.sleep(parts.retry_ms ?? VAULT_POLL_MS)
    }
  } finally {
    await listener?.stop(VAULT_STOP_GRACE_MS)
  }
}

function announce({ at, enclave, log, listening }: AwaitingParts): Listener {
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
  log.write('warn', 'vault_absent', { port: listener.port })
  listening?.(listener.port)
  return listener
}

async function answerOf(request: Request, enclave: Pick<Enclave, 'signerProof'>): Promise<object> {
  const { pathname, searchParams } = new URL(request.url)
  if (request.method !== 'GET') throw new Refusal('settlement_unavailable')
  if (pathname === '/health') return { status: 'ok' }
  if (pathname !== '/attestation') throw new Refusal('settlement_unavailable')
  return enclave.signerProof(searchParams.get('reportData') ?? undefined)
}
