/**
 * The boot event log of a dstack machine: its form, the replay of the four runtime measurement registers (RTMR0-3), and
 * the identity claims in it. Runs in a browser too.
 */

import { sha384 } from '@noble/hashes/sha2.js'
import { concatBytes, fromAnyHex, fromHex, toHex, utf8 } from '../bytes'
import { u32 } from '../codec'
import { BOOT_EVENT_NAME_MAX, BOOT_EVENT_PAYLOAD_MAX, BOOT_EVENTS_MAX } from '../limits'

/** The text is not an event log, or a claim is absent, repeated, late or of the wrong width. Names the part only. */
export class MalformedEventLog extends Error {
  override readonly name = 'MalformedEventLog'
}

/** Event type of dstack's own runtime events; their digest follows from name and payload. */
export const RUNTIME_EVENT_TYPE = 0x0800_0001
const REGISTER_BYTES = 48

export type BootEvent = {
  /** Register the event extends. */
  imr: 0 | 1 | 2 | 3
  event_type: number
  /** The digest that extended the register, 48 bytes; recomputed for runtime events instead of read from the log. */
  digest: Uint8Array
  event: string
  event_payload: Uint8Array
}

/** The machine's claims before `system-ready`; trust them only after the replay has matched the registers. */
export type MeasuredClaims = {
  /** 20 bytes. */
  app_id: Uint8Array
  /** 32 bytes: SHA-256 of the exact app-compose.json. */
  compose_hash: Uint8Array
  /** 20 bytes, or none when the manifest asks for no instance id. */
  instance_id: Uint8Array
  /** JSON text as measured: name and id of the key provider. */
  key_provider: Uint8Array
  /** 32 bytes; dstack OS 0.6 on. */
  os_image_hash?: Uint8Array
}

/** @throws MalformedEventLog unless the text is a JSON array of well formed events. */
export function parseEventLog(text: string): BootEvent[] {
  let list: unknown
  try {
    list = JSON.parse(text)
  } catch {
    throw new MalformedEventLog('the event log is not JSON')
  }
  if (!Array.isArray(list) || list.length > BOOT_EVENTS_MAX)
    throw new MalformedEventLog('the event log is not a list')
  return list.map(readEvent)
}

/**
 * A register 3 event is a runtime event and the reverse: its digest follows from name and payload. With a digest taken from
 * the log, a host could show the boot's genuine claims as nameless events and claims emitted later as those of the boot.
 */
function readEvent(item: unknown, index: number): BootEvent {
  const fault = (part: string) => new MalformedEventLog(`event ${index}: ${part} is malformed`)
  if (typeof item !== 'object' || item === null) throw fault('the event')
  const { imr, event_type, digest, event, event_payload, version } = item as Record<string, unknown>
  if (imr !== 0 && imr !== 1 && imr !== 2 && imr !== 3) throw fault('imr')
  if (typeof event_type !== 'number' || !isU32(event_type)) throw fault('event_type')
  if (typeof event !== 'string' || typeof digest !== 'string') throw fault('event or digest')
  const payload = typeof event_payload === 'string' ? fromAnyHex(event_payload) : undefined
  if (payload === undefined) throw fault('event_payload')
  const is_runtime = event_type === RUNTIME_EVENT_TYPE
  if (imr === 3) {
    if (!is_runtime) throw new MalformedEventLog(`event ${index}: register 3 has an event of another type`)
    if (payload.length > BOOT_EVENT_PAYLOAD_MAX) throw fault('event_payload')
    return { imr, event_type, digest: runtimeDigest(event, payload, version), event, event_payload: payload }
  }
  if (is_runtime) throw fault('imr of a runtime event')
  const given = fromHex(digest, REGISTER_BYTES)
  if (given === undefined) throw fault('digest')
  return { imr, event_type, digest: given, event, event_payload: payload }
}

const isU32 = (value: number): boolean => Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff

/** Plain ASCII: no separator, and no two names whose UTF-8 or JSON text is the same. */
const RUNTIME_NAME = new RegExp(`^[ !#-9;-\\[\\]-~]{1,${BOOT_EVENT_NAME_MAX}}$`)

/**
 * SHA-384 of a runtime event. Version 1: type u32 LE ":" name ":" payload. Version 2 (manifest `event_log_version` 2):
 * the RFC 8785 form of name, payload in hex, and type. The first byte keeps both forms apart. A colon in a name would let
 * name and payload be cut at another place with the same digest.
 * @throws MalformedEventLog for a name outside printable ASCII, with a colon, quote or backslash, or for another version
 */
export function runtimeDigest(name: string, payload: Uint8Array, version: unknown = 1): Uint8Array {
  if (!RUNTIME_NAME.test(name)) throw new MalformedEventLog('the name of a runtime event is malformed')
  if (version === 2) {
    const members = `"name":${JSON.stringify(name)},"payload":"${toHex(payload)}","type":${RUNTIME_EVENT_TYPE}`
    return sha384(utf8(`{${members}}`))
  }
  if (version !== 1 && version !== null) throw new MalformedEventLog('unknown version of a runtime event')
  return sha384(concatBytes(u32.encode(RUNTIME_EVENT_TYPE), utf8(`:${name}:`), payload))
}

/** RTMR0-3 that the events produce: each starts at zero and becomes SHA-384(register ‖ digest) per event. */
export function replayRegisters(
  events: readonly BootEvent[],
): [Uint8Array, Uint8Array, Uint8Array, Uint8Array] {
  const registers: [Uint8Array, Uint8Array, Uint8Array, Uint8Array] = [
    new Uint8Array(REGISTER_BYTES),
    new Uint8Array(REGISTER_BYTES),
    new Uint8Array(REGISTER_BYTES),
    new Uint8Array(REGISTER_BYTES),
  ]
  for (const { imr, digest } of events) registers[imr] = sha384(concatBytes(registers[imr], digest))
  return registers
}

const CLAIM_WIDTHS: Record<string, { widths: readonly number[] | 'any' }> = {
  'app-id': { widths: [20] },
  'compose-hash': { widths: [32] },
  'instance-id': { widths: [20, 0] },
  'key-provider': { widths: 'any' },
  'os-image-hash': { widths: [32] },
  'system-ready': { widths: [0] },
}

/**
 * Reads the claims made before `system-ready`; later events come from the application and are ignored.
 * @throws MalformedEventLog unless `system-ready` and every claim occur exactly once in the whole log, in that place.
 */
export function measuredClaims(events: readonly BootEvent[]): MeasuredClaims {
  const runtime = events.filter((event) => event.imr === 3)
  const ready = onlyEvent(runtime, 'system-ready')
  if (ready === undefined) throw new MalformedEventLog('system-ready occurs 0 times')
  const claim = (name: string): Uint8Array | undefined => {
    const found = onlyEvent(runtime, name)
    if (found !== undefined && found.at > ready.at)
      throw new MalformedEventLog(`${name} follows system-ready`)
    return found?.payload
  }
  const demanded = (name: string): Uint8Array => {
    const payload = claim(name)
    if (payload === undefined) throw new MalformedEventLog(`${name} occurs 0 times`)
    return payload
  }
  const claims: MeasuredClaims = {
    app_id: demanded('app-id'),
    compose_hash: demanded('compose-hash'),
    instance_id: demanded('instance-id'),
    key_provider: demanded('key-provider'),
  }
  const os_image_hash = claim('os-image-hash')
  return os_image_hash === undefined ? claims : { ...claims, os_image_hash }
}

/** The one event of this name; undefined when there is none. @throws MalformedEventLog for two, or another width */
function onlyEvent(
  runtime: readonly BootEvent[],
  name: string,
): { at: number; payload: Uint8Array } | undefined {
  const found = runtime.flatMap(({ event, event_payload }, at) =>
    event === name ? [{ at, payload: event_payload }] : [],
  )
  if (found.length > 1) throw new MalformedEventLog(`${name} occurs ${found.length} times`)
  const { widths } = CLAIM_WIDTHS[name]!
  if (found[0] !== undefined && widths !== 'any' && !widths.includes(found[0].payload.length))
    throw new MalformedEventLog(`${name} has another width`)
  return found[0]
}
