/** The operations of the sockets: the same commands, schemas and costs as on REST, under the names of api.md "Streams". */

import type { Session } from '../engine/venue'
import { Refusal } from '../protocol/refusals'
import { authenticate } from './_auth'
import { type Form, formOf } from './_form'
import { CancelAllBody, CancelParams, DeadManRequest, ModifyParams, PlaceRequest } from './_order_shapes'
import { COST } from './_rate'
import type { Services } from './_services'
import { exact, type Static, type TSchema, t } from './_wire'

/** What an operation may ask of the socket it came on. */
export interface OpSocket {
  readonly account_id: string
  /** Names this socket to the engine: orders placed with it are covered by cancel-on-disconnect. */
  readonly origin: string
  session(): Session
  renew(token: string): Session
  arm(armed: boolean): Promise<void>
}
type OpCall = Services & { readonly socket: OpSocket }

export type Op = {
  readonly schema: TSchema | undefined
  readonly cost: number
  readonly start: (call: OpCall, params: unknown, token: unknown) => unknown
}

function op<S extends TSchema>(
  schema: S,
  cost: number,
  run: (call: OpCall, params: Static<S>) => unknown,
): Op {
  const form: Form<S> = formOf(schema, 'params')
  return {
    schema,
    cost,
    start(call, params, token) {
      if (token !== undefined) throw new Refusal('field_unknown', { field: 'frame' })
      return run(call, form.check(params))
    },
  }
}

const ping: Op = {
  schema: undefined,
  cost: 0,
  start(call, params, token) {
    if (params !== undefined || token !== undefined) throw new Refusal('field_unknown', { field: 'frame' })
    return call.venue.time()
  },
}
const refresh: Op = {
  schema: undefined,
  cost: 0,
  start(call, params, token) {
    if (params !== undefined) throw new Refusal('field_unknown', { field: 'frame' })
    if (typeof token !== 'string') throw new Refusal('field_missing', { field: 'token' })
    // The rules of a token are the same as at the upgrade, and its account must be the socket's.
    const renewed = authenticate(call.venue, token)
    if (renewed.account_id !== call.socket.account_id) throw new Refusal('not_owner')
    const session = call.socket.renew(token)
    return { expires_in_ms: Math.max(0, Math.floor(session.expires_ms - call.clock.monotonicMs())) }
  },
}

/** What every socket takes. */
export const COMMON_OPS: Readonly<Record<string, Op>> = { ping, 'auth.refresh': refresh }

/** What `/ws/trading` takes. */
export const TRADING_OPS: Readonly<Record<string, Op>> = {
  ...COMMON_OPS,
  'order.place': op(PlaceRequest, COST.place, ({ venue, socket }, params) =>
    venue.place(socket.account_id, params, socket.origin),
  ),
  'order.cancel': op(CancelParams, COST.cancel, ({ venue, socket }, { order_id, ...body }) =>
    venue.cancel(socket.account_id, order_id, body),
  ),
  'order.modify': op(ModifyParams, COST.modify, ({ venue, socket }, { order_id, ...body }) =>
    venue.modify(socket.account_id, order_id, body, socket.origin),
  ),
  'order.cancel_all': op(CancelAllBody, COST.cancel, ({ venue, socket }, params) => {
    const bodies = Array.isArray(params) ? params : [params]
    if (bodies.length > 1) venue.takeLimit(socket.account_id, COST.cancel * (bodies.length - 1))
    return venue.cancelAll(socket.account_id, bodies)
  }),
  dead_man: op(DeadManRequest, COST.cancel, ({ venue, socket }, params) =>
    venue.deadMan(socket.account_id, params),
  ),
  cancel_on_disconnect: op(exact({ armed: t.Boolean() }), COST.cancel, async ({ socket }, { armed }) => {
    await socket.arm(armed)
    return { armed }
  }),
}
