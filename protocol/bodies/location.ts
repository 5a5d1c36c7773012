/**
 * Encodes the statement of an authority about the place of one machine (attestation.md "Location"): keyed by PPID, so that it
 * is about hardware, and bound to the instance, so that it is about this deployment on it.
 */
import { BodyError, BodyReader, BodyWriter } from './body_layout'

export const LOCATION_BYTES = 101
const LOCATION_DOMAIN = 'tacit/location/1'

/** `registry`: the provider lists the host as its own. `inspected`: a person has looked at the machine. */
export const LOCATION_LEVELS = ['registry', 'inspected'] as const
export type LocationLevel = (typeof LOCATION_LEVELS)[number]

export type LocationBody = {
  /** 16 bytes. */
  ppid: Uint8Array
  /** 20 bytes; zeros when the machine has none. */
  instance_id: Uint8Array
  level: LocationLevel
  /** Unix seconds; the statement holds from `issued_s` up to and including `expires_s`. */
  issued_s: bigint
  expires_s: bigint
  /** Printable ASCII of at most 32 characters. */
  site: string
}

export function encodeLocation(body: LocationBody): Uint8Array {
  return new BodyWriter(LOCATION_BYTES)
    .domain(LOCATION_DOMAIN)
    .bytes(body.ppid, 16)
    .bytes(body.instance_id, 20)
    .byte(LOCATION_LEVELS.indexOf(body.level) + 1)
    .u64(body.issued_s)
    .u64(body.expires_s)
    .ascii(body.site, 32)
    .done()
}

/** @throws BodyError unless the bytes are the canonical encoding of a body. */
export function decodeLocation(bytes: Uint8Array): LocationBody {
  const reader = new BodyReader(bytes, LOCATION_BYTES)
  reader.domain(LOCATION_DOMAIN)
  const [ppid, instance_id] = [reader.bytes(16), reader.bytes(20)]
  const level = LOCATION_LEVELS[reader.byte() - 1]
  if (level === undefined) throw new BodyError('unknown level')
  return { ppid, instance_id, level, issued_s: reader.u64(), expires_s: reader.u64(), site: reader.ascii(32) }
}
