/** The Elysia instance every route is mounted on, with the settings that are not its defaults. */
import { Elysia } from 'elysia'
import { Refusal } from '../protocol/refusals'
import { requestId } from './_headers'
import { problemResponse, refusalOf } from './_problem'
import type { Services } from './_services'

/**
 * - `standardHostname` stays on: off, the path of an https URL would begin at its second slash. What it takes for granted,
 *   a host of some length, is checked in `_app.ts`.
 * - `strictPath`: `/health/` is another path than `/health`.
 * - `normalize: false` and `aot`: nothing is rewritten, and errors keep their status.
 */
export function baseApp(services: Services) {
  return new Elysia({
    normalize: false,
    strictPath: true,
    aot: true,
  }).onError({ as: 'global' }, ({ code, error, request }) => {
    const request_id = requestId(request)
    const refusal =
      code === 'NOT_FOUND' ? new Refusal('route_unknown') : refusalOf(error, services.log, { request_id })
    return problemResponse(refusal, request_id, services.meters)
  })
}
export type BaseApp = ReturnType<typeof baseApp>
