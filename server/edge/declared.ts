/** Every refusal a route can give, in the order of checks: its own and those that follow from its contract. */
import { REFUSALS, type RefusalCode } from '../../protocol/refusals'
import type { TSchema } from '../shapes/wire'
import type { Contract, Endpoint, Op, Stream, StreamContract } from './endpoint'

const TOKEN: readonly RefusalCode[] = ['token_invalid', 'token_expired', 'token_revoked']
const BODY: readonly RefusalCode[] = [
  'body_too_large',
  'content_type_unsupported',
  'json_malformed',
  'key_duplicate',
  'field_unknown',
  'field_missing',
]

export function declaredRefusals(route: Endpoint | Stream): RefusalCode[] {
  const codes = new Set<RefusalCode>(
    route.kind === 'stream' ? ofStream(route.contract) : ofEndpoint(route.contract),
  )
  // Any request may carry two Host headers, and any code may have a fault.
  codes.add('field_invalid').add('internal')
  return REFUSALS.map(({ code }) => code).filter((code) => codes.has(code))
}

function ofEndpoint(contract: Contract): RefusalCode[] {
  const { bearer, cost, params, query, body, refuses } = contract
  const codes: RefusalCode[] = [...(refuses ?? [])]
  if (bearer !== undefined) codes.push(...TOKEN)
  if (bearer === true) codes.push('token_missing')
  if (cost !== undefined) codes.push('rate_limited')
  if (body !== undefined) codes.push(...BODY)
  if (query !== undefined) codes.push('key_duplicate', 'field_unknown', 'field_missing')
  for (const schema of [params, query, body]) if (schema !== undefined) codes.push(...hintsIn(schema))
  return codes
}

/** What a socket answers before the upgrade; frames have `error` frames. */
function ofStream(_contract: StreamContract): RefusalCode[] {
  return [
    ...TOKEN,
    'token_missing',
    'upgrade_required',
    'rate_limited',
    'key_duplicate',
    'field_unknown',
    'after_invalid',
    'connection_limit',
  ]
}

/** Codes that schema keywords are tied to. */
function hintsIn(value: unknown): RefusalCode[] {
  if (typeof value !== 'object' || value === null) return []
  const hints = (value as { 'x-refusal'?: Record<string, RefusalCode> })['x-refusal'] ?? {}
  return [...Object.values(hints), ...Object.values(value).flatMap((inner) => hintsIn(inner))]
}

/** The params of each operation a socket takes, for the reference. */
export function opsOf(contract: StreamContract): { op: string; schema: TSchema | undefined; cost: number }[] {
  return Object.entries(contract.ops).map(([op, entry]: [string, Op]) => ({
    op,
    schema: entry.schema,
    cost: entry.cost,
  }))
}
