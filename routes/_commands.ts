/** Runs the commands of one socket: a bad frame costs one error, a flood the socket, and answers come in order. */
import { Refusal } from '../protocol/refusals'
import { FrameFault, readFrame } from './_frames'
import type { Op, OpSocket } from './_ops'
import { problemFields, refusalOf } from './_problem'
import { openBucket } from './_rate'
import { openReplies, REPLIES_MAX } from './_replies'
import type { Services } from './_services'

/** Frames of one socket, whatever they ask: far above what the account's bucket lets through. */
const FRAMES = { capacity: 500, refill_per_s: 200, code: 'rate_limited' } as const

/** Synchronous on purpose: the runtime does not hold back frames while a handler waits. */
export function openCommands(args: {
  services: Services
  ops: Readonly<Record<string, Op>>
  socket: OpSocket
  stream: string
  send: (text: string) => void
  onFlood: () => void
}): (message: string | Uint8Array) => void {
  const { services, ops, socket, stream, send, onFlood } = args
  const frames = openBucket(FRAMES, services.clock)
  const replies = openReplies(send)
  const call = { ...services, socket }

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
      if (op.cost > 0) services.venue.takeLimit(socket.account_id, op.cost)
      return { id: frame.id, op: frame.op, result: op.start(call, frame.params, frame.token) }
    } catch (error) {
      throw new FrameFault(refusalOf(error, services.log, { route: `ws/${stream}` }), frame.id)
    }
  }
  const passes = (): boolean => {
    if (replies.pending() >= REPLIES_MAX) return false
    try {
      frames.take(1)
      return true
    } catch {
      return false
    }
  }
  return (message) => {
    if (!passes()) return onFlood()
    const fill = replies.expect()
    try {
      const { id, op, result } = start(message)
      const succeed = (value: unknown) => fill(JSON.stringify({ type: 'reply', id, result: value }))
      if (!(result instanceof Promise)) return succeed(result)
      result.then(succeed, (error) => fill(errorFrame(error, id, `ws/${stream} ${op}`)))
    } catch (error) {
      const fault = error instanceof FrameFault ? error : new FrameFault(new Refusal('internal'), undefined)
      fill(errorFrame(fault.refusal, fault.id, `ws/${stream}`))
    }
  }
}
