/**
 * Describes the statement of an authority about the place of one machine (attestation.md "Location"): keyed by PPID, so that
 * it is about hardware, and bound to the instance, so that it is about this deployment on it.
 */
import { ascii, domain, fixed, struct, u64, type ValueOf, word } from '../codec'

/** `registry`: the provider lists the host as its own. `inspected`: a person has looked at the machine. */
export const LOCATION_LEVELS = ['registry', 'inspected'] as const
export type LocationLevel = (typeof LOCATION_LEVELS)[number]

const LOCATION = struct({
  domain: domain('tacit/location/1'),
  ppid: fixed(16),
  /** Zeros when the machine has none. */
  instance_id: fixed(20),
  level: word(LOCATION_LEVELS, 1),
  /** Unix seconds; the statement holds from `issued_s` up to and including `expires_s`. */
  issued_s: u64,
  expires_s: u64,
  site: ascii(32),
})
export type LocationBody = ValueOf<typeof LOCATION>
export const LOCATION_BYTES = LOCATION.size!
export const { encode: encodeLocation, decode: decodeLocation } = LOCATION

const LOG_HEAD = struct({
  domain: domain('tacit/loc-log/1'),
  /** Number of statements. */
  size: u64,
  /** Root of the tree over them. */
  root: fixed(32),
})
export const LOG_HEAD_BYTES = LOG_HEAD.size!
export const { encode: encodeLogHead, decode: decodeLogHead } = LOG_HEAD
