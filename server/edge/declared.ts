/** Lists every refusal a route can give, in the order of checks: those it declares and those its contract implies. */

import { REFUSALS, type RefusalCode } from '../../protocol/refusals'
import type { Contract, Endpoint, Stream } from './endpoint'

/** The last one: another node may have taken over. */
const TOKEN: readonly RefusalCode[] = ['token_invalid', 'token_expired', 'token_revoked', 'lease_lost']
const BODY: readonly RefusalCode[] = [
  'body_too_large',
  'content_type_unsupported',
  'json_malformed',
  'key_duplicate',
  'field_unknown',
  'field_missing',
]
/** Before the upgrade; later errors are frames. */
const STREAM: readonly RefusalCode[] = [
  ...TOKEN,
  'token_missing',
  'upgrade_required',
  'rate_limited',
  'key_duplicate',
  'field_unknown',
  'after_invalid',
  'connection_limit',
  'socket_limit',
]

export function declaredRefusals(route: Endpoint | Stream): RefusalCode[] {
  const codes = new Set(route.kind === 'stream' ? STREAM : ofEndpoint(route.contract))
  const { access } = route.contract
  const commands = route.kind === 'stream' || route.contract.bearer === true
  if (commands && access !== 'read') codes.add('read_only')
  // Any request may have an unusable Host header or a huge body, and any handler a bug.
  codes.add('field_invalid').add('body_too_large').add('internal')
  return REFUSALS.map(({ code }) => code).filter((code) => codes.has(code))
}

function ofEndpoint(contract: Contract): RefusalCode[] {
  const { bearer, cost, params, query, body, refuses } = contract
  // An endpoint without a query rejects every name in one.
  const codes: RefusalCode[] = [...(refuses ?? []), 'key_duplicate', 'field_unknown']
  if (bearer === true) codes.push('token_missing', ...TOKEN)
  if (cost !== undefined) codes.push('rate_limited')
  if (body !== undefined) codes.push(...BODY)
  if (query !== undefined) codes.push('field_missing')
  for (const schema of [params, query, body]) if (schema !== undefined) codes.push(...hintsIn(schema))
  return codes
}

/** Codes in the `x-refusal` hints of a schema. */
function hintsIn(value: unknown): RefusalCode[] {
  if (typeof value !== 'object' || value === null) return []
  const hints = (value as { 'x-refusal'?: Record<string, RefusalCode> })['x-refusal'] ?? {}
  return [...Object.values(hints), ...Object.values(value).flatMap((inner) => hintsIn(inner))]
}
