/** One request per route of the manifest that is right in every form, so that whatever is refused is the fault under test. */

import type { MountedRoute } from '../../../server/edge/app'
import { MANIFEST } from '../../../server/manifest.gen'
import {
  CANCEL,
  CHECK,
  DEAD_MAN,
  HASH,
  KEY,
  MODIFY,
  ORDER_ID,
  PLACE,
  RESHAPE,
  WITHDRAWAL,
} from '../../routes/bodies'

type Sample = {
  mounted: MountedRoute
  /** Upper case. */
  method: string
  path: string
  bearer: boolean
  /** Names of the query it takes; undefined where it declares none. */
  query: string[] | undefined
  body: Record<string, unknown> | undefined
  is_socket: boolean
}

const PARAMS: Record<string, string> = {
  '{order_id}': ORDER_ID,
  '{reshape_id}': ORDER_ID,
  '{withdrawal_id}': ORDER_ID,
  '{symbol}': 'SOL-USDC',
  '{file}': 'none.json',
}
const BODIES: Record<string, object> = {
  'post /auth/token': {
    api_key: 'a1'.repeat(16),
    api_secret: 'b2'.repeat(32),
    passphrase: 'not-a-passphrase',
  },
  'post /notes/reshape': RESHAPE,
  'post /orders': PLACE,
  'post /orders/cancel-all': CANCEL,
  'post /orders/check': CHECK,
  'post /orders/dead-man': DEAD_MAN,
  'delete /orders/{order_id}': CANCEL,
  'put /orders/{order_id}': { ...MODIFY, replacement: { ...PLACE, order_id: '3d'.repeat(16) } },
  'post /orders/{order_id}/cancel': CANCEL,
  'post /withdrawals': WITHDRAWAL,
}
const QUERIES: Record<string, string> = {
  '/nonces': `trading_key=${KEY}`,
  '/tree/inclusion': `commitment=${HASH}`,
  '/tree/leaves': 'from=0&limit=10',
}

export const SAMPLES: Sample[] = MANIFEST.map((mounted) => {
  const { method, path, route } = mounted
  const filled = path.replace(/\{[a-z_]+\}/g, (name) => PARAMS[name]!)
  const query = QUERIES[path]
  const contract = route.kind === 'endpoint' ? route.contract : undefined
  return {
    mounted,
    method: method.toUpperCase(),
    path: query === undefined ? filled : `${filled}?${query}`,
    bearer: route.kind === 'stream' || contract?.bearer === true,
    query: contract?.query === undefined ? undefined : Object.keys(contract.query.properties),
    body: contract?.body === undefined ? undefined : structuredClone(bodyOf(method, path)),
    is_socket: route.kind === 'stream',
  }
})

function bodyOf(method: string, path: string): Record<string, unknown> {
  const body = BODIES[`${method} ${path}`]
  if (body === undefined) throw new Error(`${method} ${path} takes a body and has no sample`)
  return body as Record<string, unknown>
}

/** Every path once, with all its methods. */
export function methodsByPath(): Map<string, string[]> {
  const methods = new Map<string, string[]>()
  for (const { method, path } of SAMPLES) methods.set(path, [...(methods.get(path) ?? []), method])
  return methods
}
