/** Lists every route with its method and path, sorted by path. */

import type { MountedRoute } from './edge/endpoint'
import * as routes from './manifest.gen'

// Each file's default export must be an endpoint or a stream; any other fails to compile here.
const ROUTES: Readonly<Record<string, MountedRoute['route']>> = routes

/** Sorted, because a module lists its exports by name, and the reference document lists paths in this order. */
export const MANIFEST: readonly MountedRoute[] = Object.entries(ROUTES)
  .map(([name, route]) => {
    const [method, path] = name.split(' ') as [string, string]
    return { method, path, route }
  })
  .sort((a, b) => compare(a.path, b.path) || compare(a.method, b.method))

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
