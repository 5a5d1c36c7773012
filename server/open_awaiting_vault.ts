/**
 * Before the vault exists, the venue has nothing to serve but the proof of its settlement key: whoever opens the vault
 * reads that key here, verifies the quote over it, and names it in `initialize`. The venue then goes on by itself.
 */
import type { Enclave } from '../enclave/contract'
import { VaultAbsent } from '../engine/index'
import { Refusal } from '../protocol/refusals'
import { commonHeaders, requestId } from './edge/headers'
import type { Log } from './edge/log'
import { openMeters } from './edge/meters'
import { problemResponse, refusalOf } from './edge/problem'
import { VAULT_LOOK_MS, VAULT_STOP_GRACE_MS } from './limits'
import { type Listener, listen } from './tls/listen'

type AwaitingParts = {
  at: { hostname: string; port: number }
  enclave: Pick<Enclave, 'signerProof' | 'tls'>
  log: Log
  /** Between two looks at the chain; VAULT_LOOK_MS by default. */
  retry_ms?: number
  /** Called once it listens. */
  listening?: (port: number) => void
}

/** Opens the chain, as often as it takes while the vault is absent; any other failure is the caller's. */
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
      await Bun.sleep(parts.retry_ms ?? VAULT_LOOK_MS)
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
