/** Runs a row of the endpoint table against a listening app whose venue does one given thing. */
import type { OwnTexts, Venue } from '../../engine/venue'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { MANIFEST } from '../../server/manifest.gen'
import { type Answered, type CallInit, type Harness, only, openHarness } from '../kit/server/harness'
import type { Row } from './rows'

export const SECRET = 'never-to-be-repeated'
/** Served from elsewhere than one method of the venue; tested by files of their own. */
export const ELSEWHERE = [
  'get /info',
  'get /evidences/{file}',
  'get /swagger',
  'get /swagger/json',
  'get /swagger/style.css',
]
/** Refusals that routes or the edge decide before the venue is asked. */
export const EDGE = new Set<RefusalCode>([
  'token_missing',
  'token_invalid',
  'token_expired',
  'token_revoked',
  'rate_limited',
  'body_too_large',
  'content_type_unsupported',
  'json_malformed',
  'key_duplicate',
  'field_unknown',
  'field_missing',
  'field_invalid',
  'internal',
])

export const contractOf = (row: Row) => {
  const mounted = MANIFEST.find(({ method, path }) => `${method} ${path}` === row.endpoint)
  if (mounted === undefined || mounted.route.kind !== 'endpoint')
    throw new Error(`no endpoint ${row.endpoint}`)
  return mounted.route
}
export const methodOf = (row: Row) => row.endpoint.split(' ')[0]!.toUpperCase()

function venueOf({ venue, own }: Row, act: (...args: unknown[]) => unknown): Partial<Venue> {
  if (own === undefined) return venue === undefined ? {} : { [venue]: act }
  const text = (...args: unknown[]) => JSON.stringify(act(...args))
  return { own: only<OwnTexts>('venue.own', { [own]: text }) }
}

/** Runs `use` against a venue whose method behind the row does `act`. */
export async function against(
  row: Row,
  act: (...args: unknown[]) => unknown,
  use: (harness: Harness, send: (init?: CallInit) => Promise<Answered>) => Promise<void>,
  more: Record<string, unknown> = {},
): Promise<void> {
  const harness = openHarness({
    venue: { ...venueOf(row, act), ...more },
    enclave: row.enclave === undefined ? {} : { [row.enclave]: act },
  })
  const send = (init: CallInit = {}) =>
    harness.call(methodOf(row), row.path, { ...(row.json === undefined ? {} : { json: row.json }), ...init })
  try {
    await use(harness, send)
  } finally {
    await harness.stop()
  }
}
export const refusing = (code: RefusalCode) => () => {
  throw new Refusal(code, { retry_after_ms: 1_500 })
}
