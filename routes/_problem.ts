/** The only place that writes error bodies: RFC 9457 problem documents and the matching frame fields. */
import { REFUSAL_BY_CODE, Refusal, type RefusalCode } from '../protocol/refusals'
import { commonHeaders, type HeaderMap } from './_headers'
import type { Log } from './_log'
import type { Meters } from './_meters'

/** Where the reference page explains a code. */
export const problemType = (code: RefusalCode): string => `/swagger#${code}`
const RETRY_UNAVAILABLE_MS = 1_000

/** A refusal as it is; anything else becomes `internal` and is logged by its kind and place, never by its message. */
export function refusalOf(error: unknown, log: Log, at: { request_id?: string; route?: string }): Refusal {
  if (error instanceof Refusal) return error
  log.write('error', 'internal_error', { ...at, ...placeOf(error) })
  return new Refusal('internal')
}

/** Name and stack frames of an error: its message may hold what a caller sent. */
export function placeOf(error: unknown): { error: string; stack: string } {
  if (!(error instanceof Error)) return { error: typeof error, stack: '' }
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return { error: error.name, stack: frames.slice(0, 8).join(' | ').trim() }
}

/** What a problem document and an error frame share. */
export function problemFields(refusal: Refusal): Record<string, unknown> {
  const facts = { ...refusal.facts }
  return {
    code: refusal.code,
    message: refusal.message,
    // After an internal failure nobody knows; the state of the command answers, by its id.
    applied: refusal.code === 'internal' ? 'unknown' : refusal.applied,
    ...facts,
  }
}

export function problemResponse(
  refusal: Refusal,
  request_id: string,
  meters: Meters,
  headers: HeaderMap = {},
): Response {
  meters.refused(refusal.code)
  const { status } = REFUSAL_BY_CODE.get(refusal.code)!
  const body = {
    type: problemType(refusal.code),
    title: titleOf(refusal.code),
    status,
    detail: refusal.message,
    request_id,
    ...problemFields(refusal),
  }
  return new Response(JSON.stringify(body), {
    status,
    headers: {
      ...commonHeaders(request_id),
      'content-type': 'application/problem+json',
      ...headersOf(refusal, status),
      ...headers,
    },
  })
}

function titleOf(code: RefusalCode): string {
  const words = code.replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}

function headersOf(refusal: Refusal, status: number): HeaderMap {
  switch (status) {
    case 401:
      return { 'www-authenticate': 'Bearer' }
    case 426:
      return { upgrade: 'websocket', connection: 'Upgrade' }
    case 429:
    case 503:
      return { 'retry-after': seconds(refusal.facts.retry_after_ms ?? RETRY_UNAVAILABLE_MS) }
    default:
      return {}
  }
}

/** Whole seconds, rounded up: a caller who waits them finds the way free. */
function seconds(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1000)))
}
