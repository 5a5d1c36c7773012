/** Parses the frames that clients send, and encodes the venue's, each event once for all sockets. */

import type { EventWithText } from '../../engine/venue'
import { FRAME_ID_LENGTH_MAX } from '../../protocol/limits'
import { Refusal } from '../../protocol/refusals'
import type * as frames from '../../protocol/wire/public'
import type { EventKind } from '../../protocol/wire/trading'
import type { Static } from '../../protocol/wire/values'
import { parseJson } from '../edge/body'
import type { Frames } from './outbox'

type ClientFrame = { op: string; id: string; params: unknown; token: unknown }
/** Frames that the venue sends unasked. */
type PushedFrame = Static<
  | typeof frames.HelloFrame
  | typeof frames.StatusFrame
  | typeof frames.SnapshotFrame
  | typeof frames.GapFrame
  | typeof frames.HeartbeatFrame
  | typeof frames.WarningFrame
  | typeof frames.ByeFrame
>
const FIELDS = new Set(['op', 'id', 'params', 'token'])

/** The refusal of a frame, with the frame's id where it is usable: the error frame repeats it. */
export class FrameError extends Error {
  constructor(
    readonly refusal: Refusal,
    readonly id: string | undefined,
  ) {
    super(refusal.message)
  }
}

/** Throws FrameError with `json_malformed`, `key_duplicate`, `field_unknown`, or `frame_invalid` for a wrong `op` or `id`. */
export function readFrame(message: string | Uint8Array): ClientFrame {
  if (typeof message !== 'string') throw new FrameError(new Refusal('frame_invalid'), undefined)
  let value: unknown
  try {
    value = parseJson(message)
  } catch (error) {
    throw new FrameError(error as Refusal, undefined)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new FrameError(new Refusal('frame_invalid'), undefined)
  }
  const { op, id, params, token } = value as Record<string, unknown>
  if (typeof id !== 'string' || id.length === 0 || id.length > FRAME_ID_LENGTH_MAX) {
    throw new FrameError(new Refusal('frame_invalid', { field: 'id' }), undefined)
  }
  if (typeof op !== 'string') throw new FrameError(new Refusal('frame_invalid', { field: 'op' }), id)
  if (Object.keys(value).some((name) => !FIELDS.has(name))) {
    throw new FrameError(new Refusal('field_unknown', { field: 'frame' }), id)
  }
  return { op, id, params, token }
}

export type ServerFrame =
  | PushedFrame
  | { type: 'reply'; id: string; result: unknown }
  | ({ type: 'error'; id?: string } & Record<string, unknown>)

type Kinds = (kind: EventKind) => boolean
/** The frames of the last list of events: all sockets of an account receive the same list. */
let cached: readonly EventWithText[] = []
const frames_by_kinds = new Map<Kinds, Frames>()

export function eventFrames(events: readonly EventWithText[], kinds: Kinds): Frames {
  if (events !== cached) {
    cached = events
    frames_by_kinds.clear()
  }
  const known = frames_by_kinds.get(kinds)
  if (known !== undefined) return known
  const wanted = events.filter(({ event }) => kinds(event.kind))
  const texts = wanted.map(({ text }) => `{"type":"event",${text.slice(1)}`)
  const frames = { texts, bytes: texts.reduce((sum, text) => sum + text.length, 0) }
  frames_by_kinds.set(kinds, frames)
  return frames
}
