/** Makes one valid request per route of the manifest, so that only the fault under test is rejected. */

import type { MountedRoute } from '../../../server/edge/endpoint'
import { MANIFEST } from '../../../server/manifest'
import { MODIFY, PLACE } from '../../routes/bodies'
import { ROWS } from '../../routes/rows'

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

/** Paths of endpoints without a row. */
const PATHS: Record<string, string> = { 'get /evidences/{file}': '/evidences/none.json' }
/** Bodies where that of the row would be rejected for more than its signature or its credentials. */
const BODIES: Record<string, object> = {
  'post /auth/token': {
    api_key: 'a1'.repeat(16),
    api_secret: 'b2'.repeat(32),
    passphrase: 'not-a-passphrase',
  },
  'put /orders/{order_id}': { ...MODIFY, replacement: { ...PLACE, order_id: '3d'.repeat(16) } },
}

export const SAMPLES: Sample[] = MANIFEST.map((mounted) => {
  const { method, path, route } = mounted
  const name = `${method} ${path}`
  const row = ROWS.find(({ endpoint }) => endpoint === name)
  const contract = route.kind === 'endpoint' ? route.contract : undefined
  return {
    mounted,
    method: method.toUpperCase(),
    path: row?.path ?? PATHS[name] ?? path,
    bearer: route.kind === 'stream' || contract?.bearer === true,
    query: contract?.query === undefined ? undefined : Object.keys(contract.query.properties),
    body: contract?.body === undefined ? undefined : structuredClone(bodyOf(name, row?.json)),
    is_socket: route.kind === 'stream',
  }
})

function bodyOf(name: string, of_row: unknown): Record<string, unknown> {
  const body = BODIES[name] ?? of_row
  if (body === undefined)
    throw new Error(`${name} takes a body: give its row in test/routes/rows.ts a \`json\``)
  return body as Record<string, unknown>
}

/** Every path once, without its query, with all its methods. */
export function methodsByPath(): Map<string, string[]> {
  const methods = new Map<string, string[]>()
  for (const { method, path: with_query } of SAMPLES) {
    const path = with_query.split('?')[0]!
    methods.set(path, [...(methods.get(path) ?? []), method])
  }
  return methods
}
