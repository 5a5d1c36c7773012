/** Faults between a client and the venue, chosen by a schedule. */
import type { FrameFault } from './simulated_socket'
import type { Context } from './simulated_time'

/**
 * Faults of a request.
 * - `before`: the request is lost. `after`: its answer is lost. `ghost`: it arrives after its connection has broken.
 * - `slow`: the answer is late. `garbled`, `gateway`, `internal`: the answer is not the venue's.
 * - `rate_limited`, `draining`: the edge rejects the request with this code.
 * - `token`, `tls`, `restart`, `crash`: the login, the TLS key or the process ends before the request arrives.
 * - `restart after`, `crash after`: the process ends once it has answered, and the answer is lost.
 * - `ends before`, `ends between`, `ends after`: the client is killed when the request leaves, has arrived, or is answered.
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
