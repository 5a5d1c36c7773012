/** Runs the operations of one socket and replies in order; a bad frame costs one error, a flood closes the socket. */

import { Refusal } from '../../protocol/refusals'
import {
  CancelAllBody,
  CancelParams,
  DeadManRequest,
  ModifyParams,
  PlaceRequest,
} from '../../protocol/wire/trading'
import { exact, type Parsed, parserOf, type TSchema, t } from '../../protocol/wire/values'
import { authenticate, requireJudged } from '../edge/answer'
import type { Op, OpCall, OpSocket } from '../edge/endpoint'
import { problemFields, refusalOf } from '../edge/problem'
import { COST, openBucket } from '../edge/rate'
import type { Services } from '../edge/services'
import { FRAME_RATE, REPLIES_MAX } from '../limits'
import { FrameError, readFrame } from './frames'

/** An operation with params and without token. */
function op<S extends TSchema>(
  schema: S,
  cost: number,
  run: (call: OpCall, params: Parsed<S>) => unknown,
): Op {
  const parse = parserOf(schema, 'params')
  return {
    schema,
    cost,
    start(call, params, token) {
      if (token !== undefined) throw new Refusal('field_unknown', { field: 'frame' })
      return run(call, parse(params))
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
    // The same checks as at the upgrade, and the account must be the socket's.
    const renewed = authenticate(call.venue, token)
    if (renewed.account_id !== call.socket.account_id) throw new Refusal('not_owner')
    const session = call.socket.renew(token)
    return { expires_in_ms: Math.max(0, Math.floor(session.expires_ms - call.clock.monotonicMs())) }
  },
}

/** The operations of every socket. */
export const COMMON_OPS: Readonly<Record<string, Op>> = { ping, 'auth.refresh': refresh }

/**
 * The operations of `/ws/trading`: commands, schemas and costs are those of REST (api.md "Streams"). Replies keep the order of
 * the commands, so a deferred one is answered at once; its effect follows as an event.
 */
export const TRADING_OPS: Readonly<Record<string, Op>> = {
  ...COMMON_OPS,
  'order.place': op(PlaceRequest, COST.place, ({ venue, socket }, params) =>
    venue.place(socket.account_id, params, socket.origin),
  ),
  'order.cancel': op(CancelParams, COST.cancel, ({ venue, socket }, params) =>
    venue.cancel(socket.account_id, params, 'at_once'),
  ),
  'order.modify': op(ModifyParams, COST.modify, ({ venue, socket }, params) =>
    venue.modify(socket.account_id, params, socket.origin, 'at_once'),
  ),
  'order.cancel_all': op(CancelAllBody, COST.cancel, ({ venue, socket }, params) => {
    const bodies = Array.isArray(params) ? params : [params]
    if (bodies.length > 1) venue.takeLimit(socket, COST.cancel * (bodies.length - 1), 'command')
    return venue.cancelAll(socket.account_id, bodies)
  }),
  dead_man: op(DeadManRequest, COST.cancel, ({ venue, socket }, params) =>
    venue.deadMan(socket.account_id, params),
  ),
  cancel_on_disconnect: {
    ...op(exact({ armed: t.Boolean() }), COST.cancel, async ({ socket }, { armed }) => {
      await socket.arm(armed)
      return { armed }
    }),
    // Disarming cancels nothing and returns no data; without it no client could leave an armed socket and keep its orders.
    isForAny: (params) => Object(params).armed === false,
  },
}

/** Handlers of the client's frames. They are synchronous: the runtime delivers frames while an async one waits. */
export type Commands = {
  message(message: string | Uint8Array): void
  /** Counts a ping or pong of the protocol like a message, as each costs the venue an answer or a call. */
  control(): void
}

export function openCommands(args: {
  services: Services
  ops: Readonly<Record<string, Op>>
  socket: OpSocket
  stream: string
  send: (text: string) => void
  isOpen: () => boolean
  onFlood: () => void
}): Commands {
  const { services, ops, socket, stream, send, isOpen, onFlood } = args
  const frames = openBucket({ ...FRAME_RATE, code: 'rate_limited' }, services.clock)
  const replies = openReplies(send)
  const call = { ...services, socket }
  const inTurn = openTurns(services, socket, isOpen)

  const errorFrame = (error: unknown, id: string | undefined, route: string): string => {
    const refusal = refusalOf(error, services.log, { route })
    services.meters.refused(refusal.code)
    return JSON.stringify({ type: 'error', ...(id === undefined ? {} : { id }), ...problemFields(refusal) })
  }
  const start = (message: string | Uint8Array): { id: string; op: string; result: unknown } => {
    const frame = readFrame(message)
    try {
      const op = Object.hasOwn(ops, frame.op) ? ops[frame.op] : undefined
      if (op === undefined) throw new Refusal('frame_invalid', { field: 'op' })
      const begin = () => {
        if (op.cost > 0) {
          if (!op.isForAny?.(frame.params)) requireJudged(services.venue, socket.judged, 'command')
          services.venue.takeLimit(socket, op.cost, 'command')
        }
        return op.start(call, frame.params, frame.token)
      }
      return { id: frame.id, op: frame.op, result: op.cost > 0 ? inTurn(begin) : begin() }
    } catch (error) {
      throw new FrameError(refusalOf(error, services.log, { route: `ws/${stream}` }), frame.id)
    }
  }
  const counted = (): boolean => {
    try {
      frames.take(1)
      return true
    } catch {
      return false
    }
  }
  const take = (message: string | Uint8Array): void => {
    const fill = replies.expect()
    try {
      const { id, op, result } = start(message)
      const succeed = (value: unknown) => {
        services.meters.answered()
        fill(JSON.stringify({ type: 'reply', id, result: value }))
      }
      if (!(result instanceof Promise)) succeed(result)
      else result.then(succeed, (error) => fill(errorFrame(error, id, `ws/${stream} ${op}`)))
    } catch (error) {
      const failed = error instanceof FrameError ? error : new FrameError(new Refusal('internal'), undefined)
      fill(errorFrame(failed.refusal, failed.id, `ws/${stream}`))
    }
  }
  return {
    message: (message) => (replies.pending() < REPLIES_MAX && counted() ? take(message) : onFlood()),
    control: () => {
      if (!counted()) onFlood()
    },
  }
}

/** Commands wait while the node may answer nothing and soon may; so do the ones behind them. */
function openTurns({ venue }: Services, socket: OpSocket, isOpen: () => boolean) {
  let turn: Promise<void> | undefined
  const over = () => {
    turn = undefined
  }
  return (begin: () => unknown): unknown => {
    // Each takes a place in the queue, so that the frames of no socket fill the memory.
    const late = venue.late(socket)
    const wait = turn ?? late
    if (wait === undefined) return begin()
    if (turn === undefined) wait.then(over, over)
    else late?.catch(() => undefined)
    turn = wait
    return wait.then(() => {
      // It counts as closed by now: an order of it would stay open.
      if (!isOpen()) throw new Refusal('outcome_unknown')
      return begin()
    })
  }
}

/** Sends the replies of one socket in the order of its commands, in whichever order their results arrive. */
function openReplies(send: (frame: string) => void) {
  const places: { frame: string | undefined }[] = []
  const flush = () => {
    while (places.length > 0 && places[0]!.frame !== undefined) send(places.shift()!.frame!)
  }
  return {
    pending: () => places.length,
    /** Reserves the next place in the order; the returned function fills it, once. */
    expect(): (frame: string) => void {
      const place: { frame: string | undefined } = { frame: undefined }
      places.push(place)
      return (frame) => {
        place.frame = frame
        flush()
      }
    },
  }
}
