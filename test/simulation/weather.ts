/** Faults between a client and the venue, chosen by a schedule. */
import type { FrameFault } from './simulated_socket'
import type { Context } from './simulated_time'

/**
 * The fault of a request. `before`: never arrives; `after`: arrives, and its answer is lost; `ghost`: arrives long after its
 * connection broke; `slow`: its answer does; `garbled`, `gateway`, `internal`: another answer than the venue's; codes: the edge
 * rejects it; `token`, `tls`, `restart`: the login, the TLS key or the epoch ends first; `ends`: the client is killed when the
 * request leaves, when it has arrived, or when its answer has.
 */
export const FAULTS = [
  ...['before', 'after', 'ghost', 'slow', 'garbled', 'gateway', 'internal'],
  ...['rate_limited', 'draining', 'token', 'tls', 'restart', 'restart after', 'crash', 'crash after'],
  ...['ends before', 'ends between', 'ends after'],
] as const
export type Fault = (typeof FAULTS)[number]

export type Weather = {
  request(kind: string): Fault | undefined
  frame(): FrameFault | undefined
  /** A signed request leaves the client. */
  left(context: Context, kind: string, body: string): void
  killed(context: Context): void
}
