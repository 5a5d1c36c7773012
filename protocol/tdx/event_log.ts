/**
 * The boot event log of a dstack machine: its form, the replay of the four runtime measurement registers (RTMR0-3), and
 * the identity claims in it. Runs in a browser too.
 */

import { sha384 } from '@noble/hashes/sha2.js'
import { concatBytes, fromAnyHex, fromHex, toHex, utf8 } from '../bytes'
import { BOOT_EVENTS_MAX } from '../limits'

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

function readEvent(item: unknown, index: number): BootEvent {
  const fault = (part: string) => new MalformedEventLog(`event ${index}: ${part} is malformed`)
  if (typeof item !== 'object' || item === null) throw fault('the event')
  const { imr, event_type, digest, event, event_payload, version } = item as Record<string, unknown>
  if (imr !== 0 && imr !== 1 && imr !== 2 && imr !== 3) throw fault('imr')
  if (typeof event_type !== 'number' || !Number.isInteger(event_type)) throw fault('event_type')
  if (typeof event !== 'string' || typeof digest !== 'string') throw fault('event or digest')
  if (typeof event_payload !== 'string') throw fault('event_payload')
  const payload = fromAnyHex(event_payload)
  if (payload === undefined) throw fault('event_payload')
  if (event_type === RUNTIME_EVENT_TYPE) {
    if (imr !== 3) throw fault('imr of a runtime event')
    return { imr, event_type, digest: runtimeDigest(event, payload, version), event, event_payload: payload }
  }
  const given = fromHex(digest, REGISTER_BYTES)
  if (given === undefined) throw fault('digest')
  return { imr, event_type, digest: given, event, event_payload: payload }
}

/**
 * SHA-384 of a runtime event. Version 1: type u32 LE ":" name ":" payload. Version 2 (manifest `event_log_version` 2):
 * the RFC 8785 form of name, payload in hex, and type. A colon in a version 1 name would make the form ambiguous.
 */
export function runtimeDigest(name: string, payload: Uint8Array, version: unknown = 1): Uint8Array {
  if (version === 2) {
    const members = `"name":${JSON.stringify(name)},"payload":"${toHex(payload)}","type":${RUNTIME_EVENT_TYPE}`
    return sha384(utf8(`{${members}}`))
  }
  if (version !== 1 && version !== null) throw new MalformedEventLog('unknown version of a runtime event')
  if (name.includes(':')) throw new MalformedEventLog('the name of a runtime event holds a colon')
  const type = new Uint8Array(4)
  new DataView(type.buffer).setUint32(0, RUNTIME_EVENT_TYPE, true)
  return sha384(concatBytes(type, utf8(`:${name}:`), payload))
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

const CLAIM_WIDTHS: Record<string, { widths: readonly number[] | 'any'; optional?: true }> = {
  'app-id': { widths: [20] },
  'compose-hash': { widths: [32] },
  'instance-id': { widths: [20, 0] },
  'key-provider': { widths: 'any' },
  'os-image-hash': { widths: [32], optional: true },
}

/**
 * Reads the claims made before `system-ready`; later events come from the application and are ignored.
 * @throws MalformedEventLog unless `system-ready` and every claim occur exactly once in the whole log, in that place.
 */
export function measuredClaims(events: readonly BootEvent[]): MeasuredClaims {
  const runtime = events.filter((event) => event.event_type === RUNTIME_EVENT_TYPE)
  const ready = runtime.findIndex((event) => event.event === 'system-ready')
  const claim = (name: string): Uint8Array | undefined => {
    const { widths, optional } = CLAIM_WIDTHS[name]!
    const found = runtime.flatMap((event, index) => (event.event === name ? [{ event, index }] : []))
    if (found.length === 0 && optional) return undefined
    if (found.length !== 1) throw new MalformedEventLog(`${name} occurs ${found.length} times`)
    const { event, index } = found[0]!
    if (index > ready) throw new MalformedEventLog(`${name} follows system-ready`)
    const width = event.event_payload.length
    if (widths !== 'any' && !widths.includes(width)) throw new MalformedEventLog(`${name} has another width`)
    return event.event_payload
  }
  const readies = runtime.filter((event) => event.event === 'system-ready').length
  if (readies !== 1) throw new MalformedEventLog(`system-ready occurs ${readies} times`)
  const claims: MeasuredClaims = {
    app_id: claim('app-id')!,
    compose_hash: claim('compose-hash')!,
    instance_id: claim('instance-id')!,
    key_provider: claim('key-provider')!,
  }
  const os_image_hash = claim('os-image-hash')
  return os_image_hash === undefined ? claims : { ...claims, os_image_hash }
}
