/** What one node asks another on a link, in JSON. */

import { parserOf } from '../../protocol/wire/parse'
import { exact, type Static, t } from '../../protocol/wire/values'

const Count = t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const HeaderList = t.Array(exact({ name: t.String(), value: t.String() }))
const Base64 = t.String()

/**
 * A call of the operator, whose signature both nodes verify, or the nonce of a client, empty for none, that judges the
 * leading node; without either, who leads and how far.
 */
const Question = exact({
  attest: t.Optional(t.String({ pattern: '^([0-9a-f]{64})?$' })),
  call: t.Optional(exact({ method: t.String(), target: t.String(), headers: HeaderList, body: Base64 })),
})
export const parseQuestion = parserOf(Question)
export type Question = Static<typeof Question>

export const parseLead = parserOf(exact({ epoch: Count, seq: Count }))
const parsePassed = parserOf(exact({ status: Count, headers: HeaderList, body: Base64 }))

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')

export function questionOf(request: Request, body: Uint8Array): Question {
  const { pathname, search } = new URL(request.url)
  const headers = listOf(request.headers)
  return { call: { method: request.method, target: pathname + search, headers, body: base64(body) } }
}

/** @throws TypeError for a target or headers that no request has */
export function requestOf({
  method,
  target,
  headers,
  body,
}: NonNullable<ReturnType<typeof parseQuestion>['call']>): Request {
  const bytes = Buffer.from(body, 'base64')
  const init = { method, headers: headersOf(headers), ...(method === 'GET' ? {} : { body: bytes }) }
  return new Request(new URL(target, 'https://node'), init)
}

export async function answerOf(response: Response): Promise<object> {
  const body = base64(await response.bytes())
  return { status: response.status, headers: listOf(response.headers), body }
}

export function responseOf(answer: unknown): Response {
  const { status, headers, body } = parsePassed(answer)
  return new Response(Buffer.from(body, 'base64'), { status, headers: headersOf(headers) })
}

type HeaderList = Static<typeof HeaderList>
const listOf = (headers: Headers): HeaderList => [...headers].map(([name, value]) => ({ name, value }))
const headersOf = (list: HeaderList): Headers => new Headers(list.map(({ name, value }) => [name, value]))
