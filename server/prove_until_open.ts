/**
 * Serves the proof of the epoch authority until the start can go on: until the vault exists and has announced that key, which
 * the admin does last, after verifying the quote over it, and until the own machine can be judged. No restart is needed.
 */

import type { Enclave } from '../enclave/contract'
import { VaultAbsent } from '../engine/index'
import { Refusal } from '../protocol/refusals'
import { commonHeaders, requestId } from './edge/headers'
import type { Log } from './edge/log'
import { openMeters } from './edge/meters'
import { problemResponse, refusalOf } from './edge/problem'
import { PROOF_STOP_GRACE_MS, START_RETRY_MS } from './limits'
import { MachineUnjudged } from './self_check'
import { type Listener, listen } from './tls/listen'

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
