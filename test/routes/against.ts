/** Runs a row of the endpoint table against a listening app whose venue does one given thing. */
import type { OwnTexts, Venue } from '../../engine/venue'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import type { Endpoint } from '../../server/edge/endpoint'
import { MANIFEST } from '../../server/manifest'
import { type Answered, type CallInit, type Harness, only, openHarness } from '../kit/server/harness'
import { ROWS, type Row } from './rows'

export const SECRET = 'never-to-be-repeated'
/** Endpoints that answer a page or a file, or from more than one method: each has a test file instead of a row. */
export const ELSEWHERE = [
  'get /info',
  'get /attestation/leader',
  'get /evidences/{file}',
  'get /swagger',
  'get /swagger/json',
  'get /swagger/style.css',
  'get /swagger/streams',
  'get /swagger/llms.txt',
  'get /swagger/docs/{page}',
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

/** Rows that fit a route; the others are named by the first test of `endpoints.test.ts`. */
export const FITTING = ROWS.filter(({ endpoint }) => endpointOf(endpoint) !== undefined)

/** The endpoint that `get /orders` names; undefined for streams and unknown names. */
export function endpointOf(name: string): Endpoint | undefined {
  const mounted = MANIFEST.find(({ method, path }) => `${method} ${path}` === name)
  return mounted?.route.kind === 'endpoint' ? mounted.route : undefined
}
export const contractOf = (row: Row): Endpoint => {
  const found = endpointOf(row.endpoint)
  if (found === undefined) throw new Error(`no endpoint ${row.endpoint}`)
  return found
}
export const methodOf = (row: Row) => row.endpoint.split(' ')[0]!.toUpperCase()

function venueOf(
  { venue, own }: Row,
  act: (...args: unknown[]) => unknown,
  unexpected: string[],
): Partial<Venue> {
  const text = (...args: unknown[]) => JSON.stringify(act(...args))
  const texts = only<OwnTexts>('venue.own', own === undefined ? {} : { [own]: text }, unexpected)
  return { own: texts, ...(venue === undefined ? {} : { [venue]: act }) }
}

/** Runs `use` against a venue whose method behind the row does `act`. */
export async function against(
  row: Row,
  act: (...args: unknown[]) => unknown,
  use: (harness: Harness, send: (init?: CallInit) => Promise<Answered>) => Promise<void>,
  more: Record<string, unknown> = {},
): Promise<void> {
  const unexpected: string[] = []
  const harness = openHarness({
    unexpected,
    venue: { ...venueOf(row, act, unexpected), ...more },
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
