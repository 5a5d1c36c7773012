/**
 * Forges an event log: a machine booted with another manifest emits the claims of the pinned build after boot, and its host
 * shows the genuine boot events of register 3 under another type, with their genuine digests. Every register agrees.
 */
import { fromAnyHex, toHex } from '../../../protocol/bytes'
import { RUNTIME_EVENT_TYPE, runtimeDigest } from '../../../protocol/tdx/event_log'

export type LoggedEvent = {
  imr: number
  event_type: number
  digest: string
  event: string
  event_payload: string
}

const CLAIMS = ['app-id', 'compose-hash', 'instance-id', 'key-provider', 'system-ready']
const EVIL_COMPOSE_HASH = 'ee'.repeat(32)

type ForgedLog = {
  /** The order in which the machine extended its registers: the quote agrees with it. */
  extended: LoggedEvent[]
  /** The form that the host shows: other types for the boot's events, the emitted claims as they are. */
  shown: LoggedEvent[]
}

/** @param honest log of a machine that runs the pinned build @param shown_type event type of the relabelled events */
export function forgeLog(honest: readonly LoggedEvent[], shown_type: number): ForgedLog {
  const boot = honest.map((event) =>
    event.event === 'compose-hash' ? { ...event, event_payload: EVIL_COMPOSE_HASH } : event,
  )
  const emitted = CLAIMS.map((name) => ({ ...honest.find(({ event }) => event === name)!, digest: '' }))
  const shown = boot.map((event) =>
    event.event_type === RUNTIME_EVENT_TYPE ? relabelled(event, shown_type) : event,
  )
  return { extended: [...boot, ...emitted], shown: [...shown, ...emitted] }
}

function relabelled({ event, event_payload }: LoggedEvent, event_type: number): LoggedEvent {
  const digest = toHex(runtimeDigest(event, fromAnyHex(event_payload)!))
  return { imr: 3, event_type, digest, event: '', event_payload: '' }
}
