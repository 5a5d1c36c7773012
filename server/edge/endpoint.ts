/** One function per endpoint: `endpoint(contract, handler)` for a request, `stream(...)` for a socket. */

import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Json, Session } from '../../engine/venue'
import type { RefusalCode } from '../../protocol/refusals'
import type { EventKind } from '../../protocol/wire/trading'
import type { HeaderMap } from './headers'
import type { Services } from './services'

// One endpoint = one contract + one function; method and path come from the file's name.
//
// Elysia routes and nothing else of it decides: its own validation runs before authentication, drops unknown fields,
// turns text into numbers and echoes what was sent. The contract's schemas are therefore checked by `answer.ts`, in the
// published order of checks, and feed the reference document as they are.

export { integerOf, t } from '../shapes/wire'
export { COST } from './rate'

type Tag = 'account' | 'orders' | 'notes' | 'settlement' | 'market' | 'trust' | 'operations'
/** A page or file: its own content type instead of JSON. */
export type Text = { content_type: string; body: string; headers?: HeaderMap }
type Answer =
  | { readonly status: 200 | 202; readonly body: TSchema }
  /** Its content type, or those of its files. */
  | { readonly status: 200; readonly text: string | readonly string[] }

export type Contract = {
  readonly summary: string
  readonly description?: string
  readonly tag: Tag
  /** true: a token is required. 'optional': a token is honoured, and must be valid if sent. */
  readonly bearer?: true | 'optional'
  /** Tokens taken from the account's bucket before the body is read. */
  readonly cost?: number
  readonly params?: TObject
  readonly query?: TObject
  readonly body?: TSchema
  readonly answer: Answer
  /** Codes of its own; those of token, limit, size and form follow from the contract. */
  readonly refuses?: readonly RefusalCode[]
  /** `cache-control` of a success; `no-store` without it. */
  readonly cache?: string
}

type Part<C extends Contract, K extends 'params' | 'query' | 'body'> = C[K] extends TSchema
  ? { readonly [P in K]: Static<C[K]> }
  : unknown
type Caller<C extends Contract> = C['bearer'] extends true
  ? { readonly account_id: string; readonly session: Session }
  : C['bearer'] extends 'optional'
    ? { readonly account_id: string | undefined }
    : unknown
/** What a handler sees: the services, the caller, and the checked parts of the request its contract declares. */
type Call<C extends Contract> = Services & Caller<C> & Part<C, 'params'> & Part<C, 'query'> & Part<C, 'body'>
type Result<C extends Contract> = C['answer'] extends { readonly body: infer S extends TSchema }
  ? Readonly<Static<S>> | Json<Static<S>>
  : Text

export type Endpoint = {
  readonly kind: 'endpoint'
  readonly contract: Contract
  readonly handler: (call: never) => unknown
}

export function endpoint<const C extends Contract>(
  contract: C,
  handler: (call: Call<C>) => Result<C> | Promise<Result<C>>,
): Endpoint {
  return { kind: 'endpoint', contract, handler }
}

// One socket is one contract; its path is the file's name. The protocol of frames is the same for all.

/** What an operation may ask of the socket it came on. */
export interface OpSocket {
  readonly account_id: string
  /** Names this socket to the engine: orders placed with it are covered by cancel-on-disconnect. */
  readonly origin: string
  session(): Session
  renew(token: string): Session
  arm(armed: boolean): Promise<void>
}
export type OpCall = Services & { readonly socket: OpSocket }

export type Op = {
  readonly schema: TSchema | undefined
  readonly cost: number
  readonly start: (call: OpCall, params: unknown, token: unknown) => unknown
}

export type StreamContract = {
  /** Named in `hello`. */
  readonly name: 'trading' | 'orders' | 'fills'
  readonly summary: string
  readonly description: string
  /** Which of the account's events are pushed. */
  readonly kinds: (kind: EventKind) => boolean
  /** What clients may send, by `op`. */
  readonly ops: Readonly<Record<string, Op>>
  /** Whether the live orders are sent to a reader that does not resume. */
  readonly snapshot: boolean
}
export type Stream = { readonly kind: 'stream'; readonly contract: StreamContract }

export function stream(contract: StreamContract): Stream {
  return { kind: 'stream', contract }
}

/** A route at its place in the URL space. */
export type MountedRoute = {
  /** Lower case; a socket is mounted as `get`. */
  readonly method: string
  /** `{name}` marks a parameter, as in OpenAPI. */
  readonly path: string
  readonly route: Endpoint | Stream
}
