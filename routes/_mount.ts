/** Mounts the route files of the manifest on an Elysia app, each path with an answer for every method. */
import { answering } from './_answer'
import type { BaseApp } from './_base'
import type { Endpoint } from './_endpoint'
import { otherMethods } from './_methods'
import type { Services } from './_services'
import type { Stream } from './_stream'
import { type Upgrader, upgrading } from './_upgrade'

export type MountedRoute = {
  /** Lower case; a socket is mounted as `get`. */
  readonly method: string
  /** `{name}` marks a parameter, as in OpenAPI. */
  readonly path: string
  readonly route: Endpoint | Stream
}

export function mount(
  app: BaseApp,
  manifest: readonly MountedRoute[],
  services: Services,
  upgraderOf: (request: Request) => Upgrader | undefined,
): void {
  const methods = new Map<string, string[]>()
  for (const { method, path, route } of manifest) {
    methods.set(path, [...(methods.get(path) ?? []), method])
    const template = `${method.toUpperCase()} ${path}`
    const answer =
      route.kind === 'stream'
        ? upgrading(route, services, template, upgraderOf)
        : answering(route, services, template)
    // Bound, so that it has no text: Elysia awaits what looks like a call behind `return`, and every answer would wait.
    app.route(method.toUpperCase(), routerPath(path), answer.bind(undefined))
  }
  for (const [path, taken] of methods) {
    const answer = otherMethods(taken, services)
    app.all(routerPath(path), answer)
  }
}

/** `/orders/{order_id}` is `/orders/:order_id` to the router. */
function routerPath(path: string): string {
  return path.replace(/\{([^}]+)\}/g, ':$1')
}
