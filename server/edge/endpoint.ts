/**
 * Declares one endpoint (`endpoint`) or one socket (`stream`) by a contract; method and path come from the file's name.
 *
 * Elysia only routes requests. Its own validation would run before authentication, drop unknown fields, convert text to
 * numbers and echo the request, so `answer.ts` parses by the contract's schemas in the published order. The reference
 * document is generated from the same schemas.
 */

import type { Static, TObject, TSchema } from '@sinclair/typebox'
import type { Json, Session } from '../../engine/venue'
import type { RefusalCode } from '../../protocol/refusals'
import type { EventKind } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { HeaderMap } from './headers'
import type { Services } from './services'
import type { Shared } from './shared_quotes'

export { COST } from './rate'

/** A page or a file: text with a content type other than JSON. */
export type Text = { content_type: string; body: string; headers?: HeaderMap }
type Tag = 'account' | 'orders' | 'notes' | 'settlement' | 'market' | 'trust' | 'operations'
type Answer =
  /**
   * `pending`: the body of a 202 with which the endpoint answers while the effect of the command waits. `csv`: the list of
   * flat rows in the body that is answered as CSV to callers that accept `text/csv`. `writes`: the text of a frequent body.
   */
  | {
      readonly status: 200 | 202
      readonly body: TSchema
      readonly pending?: TSchema
      readonly csv?: string
      readonly writes?: (answer: never) => string
    }
  /** Its content type, or all content types it can have. */
  | { readonly status: 200; readonly text: string | readonly string[] }

export type Contract = {
  readonly summary: string
  readonly description?: string
  readonly tag: Tag
  /** true: a token is required. 'optional': a token may be sent; one that is not valid counts as none. */
  readonly bearer?: true | 'optional'
  /** A credential that only reads suffices. */
  readonly access?: 'read'
  /** Tokens taken from the account's bucket before the body is read. */
  readonly cost?: number
  readonly params?: TObject
  readonly query?: TObject
  readonly body?: TSchema
  readonly answer: Answer
  /** It has a body and changes nothing. */
  readonly reads?: true
  /** Codes of the handler; those of token, limit, size and schemas follow from the contract. */
  readonly refuses?: readonly RefusalCode[]
  /** `cache-control` of a success; default `no-store`. */
  readonly cache?: string
}

type Part<C extends Contract, K extends 'params' | 'query' | 'body'> = C[K] extends TSchema
  ? { readonly [P in K]: Parsed<C[K]> }
  : unknown
type Caller<C extends Contract> = C['bearer'] extends true
  ? { readonly account_id: string; readonly session: Session }
  : C['bearer'] extends 'optional'
    ? { readonly account_id: string | undefined; readonly session: Session | undefined }
    : unknown
/** Argument of a handler: the services, the caller, and the parsed parts of the request that its contract declares. */
type Call<C extends Contract> = Services & Caller<C> & Part<C, 'params'> & Part<C, 'query'> & Part<C, 'body'>
type Result<C extends Contract> = C['answer'] extends { readonly body: infer S extends TSchema }
  ? Readonly<Static<S>> | Json<Static<S>> | Shared<Static<S> & object> | Pending<C['answer']>
  : Text
type Pending<A> = A extends { readonly pending: infer S extends TSchema } ? Readonly<Static<S>> : never

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

/** The socket that an operation arrived on. */
export interface OpSocket {
  readonly account_id: string
  readonly access: Session['access']
  /** Identifies this socket to the engine; cancel-on-disconnect covers the orders placed with it. */
  readonly origin: string
  /** Epoch of the leading node that the client has judged. */
  readonly judged?: number | undefined
  renew(token: string): Session
  arm(armed: boolean): Promise<void>
}
export type OpCall = Services & { readonly socket: OpSocket }

/** One operation that clients may send on a socket. */
export type Op = {
  /** Schema of `params`; undefined where the operation takes none. */
  readonly schema: TSchema | undefined
  /** Tokens taken from the account's bucket. */
  readonly cost: number
  /** Whether it may go to a leading node that the client has not judged. */
  readonly isForAny?: (params: unknown) => boolean
  /** Validates and runs; returns the result or a promise of it. Throws Refusal. */
  readonly start: (call: OpCall, params: unknown, token: unknown) => unknown
}

export type StreamContract = {
  /** Sent in `hello`. */
  readonly name: 'trading' | 'orders' | 'fills'
  readonly summary: string
  readonly description: string
  /** A credential that only reads suffices. */
  readonly access?: 'read'
  /** Which of the account's events are pushed. */
  readonly kinds: (kind: EventKind) => boolean
  /** Operations that clients may send, by `op`. */
  readonly ops: Readonly<Record<string, Op>>
  /** Whether a client that does not resume first receives its live orders. */
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
