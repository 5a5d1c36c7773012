/** Writes error answers: RFC 9457 problem documents and error frames; and lists the refusals of each kind of command. */

import { REFUSAL_BY_CODE, Refusal, type RefusalCode } from '../../protocol/refusals'
import { UNAVAILABLE_RETRY_MS } from '../limits'
import { commonHeaders, type HeaderMap } from './headers'
import type { Log } from './log'
import type { Meters } from './meters'

/** Returns a refusal unchanged; any other error becomes `internal` and is logged without its message. */
export function refusalOf(error: unknown, log: Log, at: { request_id?: string; route?: string }): Refusal {
  if (error instanceof Refusal) return error
  log.write('error', 'internal_error', { ...at, ...placeOf(error) })
  return new Refusal('internal')
}

/** Errors whose messages are fixed words, numbers and names of the venue's own files. */
const SAFE_TO_LOG: ReadonlySet<string> = new Set([
  ...['AcmeFailure', 'JournalDamaged', 'StoreDamaged', 'TreesDamaged'],
  ...['LogRolledBack', 'LogGap', 'Deposed', 'EtcdRejects'],
])

/** Name and stack frames of an error; its message only where that cannot contain a submitted value. */
export function placeOf(error: unknown): { error: string; stack: string; reason?: string } {
  if (!(error instanceof Error)) return { error: typeof error, stack: '' }
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  const place = { error: error.name, stack: frames.slice(0, 8).join(' | ').trim() }
  return SAFE_TO_LOG.has(error.name) ? { ...place, reason: error.message } : place
}

/** The fields that a problem document and an error frame share. */
export function problemFields(refusal: Refusal): Record<string, unknown> {
  return {
    code: refusal.code,
    message: refusal.message,
    applied: refusal.applied,
    ...refusal.facts,
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
    // The anchor of the code on the reference page.
    type: `/swagger#${refusal.code}`,
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
    case 413:
      // The rest of the body is not worth reading, and may have no end.
      return { connection: 'close' }
    case 401:
      return { 'www-authenticate': 'Bearer' }
    case 426:
      return { upgrade: 'websocket', connection: 'Upgrade' }
    case 429:
    case 503:
      return { 'retry-after': seconds(refusal.facts.retry_after_ms ?? UNAVAILABLE_RETRY_MS) }
    default:
      return {}
  }
}

/** Whole seconds, rounded up, so that a retry after them is not early. */
function seconds(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1000)))
}

// The refusals of each kind of command beyond token, limit, size and schema (protocol.md "Order of checks").

type Codes = readonly RefusalCode[]

const OWNERSHIP: Codes = ['signature_invalid', 'key_bound']
const EXPIRY: Codes = ['expiry_too_soon', 'expiry_too_far']
const COLLATERAL: Codes = ['note_unknown', 'note_wrong_mint', 'note_spent', 'note_in_use']
/** Nothing may be acknowledged, cancels included. */
const SILENT: Codes = ['matching_unavailable', 'draining', 'lease_lost', 'commit_reorged', 'unanchored']
export const UNRELEASED: Codes = [...SILENT, 'outcome_unknown']
const UNAVAILABLE: Codes = ['reopening', 'settlement_unavailable']

export const CHECK_REFUSALS: Codes = [
  'field_element_invalid',
  'order_id_zero',
  'anchors_invalid',
  'instrument_unknown',
  'amount_out_of_range',
  'amount_off_lot',
  'price_zero',
  'price_off_tick',
  'value_overflow',
  'min_fill_invalid',
  ...EXPIRY,
  'instrument_paused',
  ...SILENT,
  ...UNAVAILABLE,
  'disk_full',
]
export const PLACE_REFUSALS: Codes = [
  ...CHECK_REFUSALS,
  'outcome_unknown',
  ...OWNERSHIP,
  'account_suspended',
  'order_exists',
  'order_id_taken',
  'nonce_stale',
  ...COLLATERAL,
  'collateral_insufficient',
  'self_cross',
  'account_order_limit',
  'account_key_limit',
  'settlement_backlog',
]
export const CANCEL_REFUSALS: Codes = [
  'order_id_zero',
  ...OWNERSHIP,
  'not_owner',
  'order_unknown',
  'order_final',
  'nonce_stale',
  ...UNRELEASED,
  'account_key_limit',
  'commit_undecided',
  'order_exists',
]
export const MODIFY_REFUSALS: Codes = [...PLACE_REFUSALS, ...CANCEL_REFUSALS]
export const CANCEL_ALL_REFUSALS: Codes = [
  'instrument_unknown',
  ...OWNERSHIP,
  'nonce_stale',
  ...UNRELEASED,
  'account_key_limit',
]
export const DEAD_MAN_REFUSALS: Codes = [
  'timeout_out_of_range',
  ...OWNERSHIP,
  'nonce_stale',
  ...UNRELEASED,
  'account_key_limit',
]
const NOTE_COMMAND: Codes = [
  'field_element_invalid',
  ...OWNERSHIP,
  'account_suspended',
  'order_exists',
  'order_id_taken',
  'nonce_stale',
  ...EXPIRY,
  ...COLLATERAL,
  ...UNRELEASED,
  ...UNAVAILABLE,
  'account_key_limit',
  'settlement_backlog',
]
export const WITHDRAWAL_REFUSALS: Codes = [
  ...NOTE_COMMAND,
  'collateral_insufficient',
  'withdraw_below_minimum',
]
export const RESHAPE_REFUSALS: Codes = [
  ...NOTE_COMMAND,
  'reshape_invalid',
  'collateral_insufficient',
  'disk_full',
]
