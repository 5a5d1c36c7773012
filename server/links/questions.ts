/** Defines the questions that one node asks another on a link, in JSON. */

import type { Lead, Passed, PassedAnswer } from '../../engine/venue'
import { REFUSAL_BY_CODE, Refusal, type RefusalCode } from '../../protocol/refusals'
import { STATISTICS_PERIODS, SystemStatus } from '../../protocol/wire/public'
import { Address, asText, exact, oneOf, parserOf, type Static, t } from '../../protocol/wire/values'

const Count = t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const HeaderList = t.Array(exact({ name: t.String(), value: t.String() }))
const Base64 = t.String()
const NodeName = t.String({ pattern: '^[0-9a-f]{16}\\.$' })

/**
 * The end that a node that follows has applied, with the epoch of its state, the name with which its sockets begin, the frames
 * that it sent on its connection, and `at_ms` of the newest answer that it had on this link.
 */
const Applied = exact({
  seq: Count,
  epoch: Count,
  node: NodeName,
  frames: Count,
  heard_ms: t.Optional(Count),
})
/**
 * A call of the operator, whose signature both nodes verify, or the nonce of a client that judges the leading node, empty for
 * none; without either, a question who leads and how far.
 */
const Question = exact({
  applied: t.Optional(Applied),
  attest: t.Optional(t.String({ pattern: '^([0-9a-f]{64})?$' })),
  call: t.Optional(exact({ method: t.String(), target: t.String(), headers: HeaderList, body: Base64 })),
})
export const parseQuestion = parserOf(Question)
type Parsed = ReturnType<typeof parseQuestion>
export type Applied = NonNullable<Parsed['applied']>
export type Question = Static<typeof Question>

const LeadText = exact({
  epoch: Count,
  seq: Count,
  head: t.String({ pattern: '^[0-9a-f]{64}$' }),
  right_ms: Count,
  status: exact({
    ...SystemStatus.properties,
    chain: exact({ ...SystemStatus.properties.chain.properties, genesis_hash: asText(Address) }),
  }),
  unavailable: t.Union([t.String(), t.Null()]),
  nodes: Count,
})
const parseLead = parserOf(LeadText)
const parsePassed = parserOf(exact({ status: Count, headers: HeaderList, body: Base64 }))

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')

export function questionOf(request: Request, body: Uint8Array): Question {
  const { pathname, search } = new URL(request.url)
  const headers = listOf(request.headers)
  return { call: { method: request.method, target: pathname + search, headers, body: base64(body) } }
}

/** @throws TypeError for a target or headers that no request has */
export function requestOf({ method, target, headers, body }: NonNullable<Parsed['call']>): Request {
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

const access = oneOf(['trade', 'read'])
const kindOf = <K extends Passed['kind']>(kind: K) => t.Literal(kind)
const parsePassedOn = parserOf(
  t.Union([
    exact({
      kind: kindOf('command'),
      seq: Count,
      access,
      command: Base64,
      signed: Base64,
      answers: oneOf(['held', 'at_once']),
    }),
    exact({ kind: kindOf('record'), seq: Count, access, command: Base64 }),
    exact({
      kind: kindOf('statistics'),
      symbol: t.String(),
      after: Count,
      limit: Count,
      period: oneOf(STATISTICS_PERIODS),
    }),
    exact({ kind: kindOf('tree_root') }),
    exact({ kind: kindOf('tree_leaves'), from: Count, limit: Count }),
    exact({
      kind: kindOf('tree_inclusion'),
      leaf: t.Union([Count, t.String({ pattern: '^[0-9a-f]{64}$' })]),
    }),
    exact({ kind: kindOf('leaves'), node: NodeName }),
  ]),
)

/** Begins a connection: the node's open armed sockets, in parts; the last part says so. */
const Sockets = exact({ kind: t.Literal('sockets'), open: t.Array(t.String()), more: t.Boolean() })
export type Sockets = Static<typeof Sockets>
export const parseSockets = parserOf(Sockets)
/** Of those sockets, the ones that are not armed on the leading node, as its answer to the last part says. */
export const parseUnarmed = parserOf(exact({ unarmed: t.Array(t.String()) }))

/** In the form that is sent: bytes as text. */
export function textOfPassed(passed: Passed): object {
  if (passed.kind === 'command')
    return { ...passed, command: base64(passed.command), signed: base64(passed.signed) }
  return passed.kind === 'record' ? { ...passed, command: base64(passed.command) } : passed
}

export function passedOf(content: unknown): Passed {
  const passed = parsePassedOn(content)
  const bytes = (text: string) => new Uint8Array(Buffer.from(text, 'base64'))
  if (passed.kind === 'command')
    return { ...passed, command: bytes(passed.command), signed: bytes(passed.signed) }
  return passed.kind === 'record' ? { ...passed, command: bytes(passed.command) } : passed
}

/** The answer, or its refusal with all its public facts. */
type Outcome = PassedAnswer | { code: RefusalCode; facts: Refusal['facts'] }

export const refusedOf = (error: unknown): Outcome =>
  error instanceof Refusal ? { code: error.code, facts: error.facts } : { code: 'internal', facts: {} }

/** @throws Refusal */
export function answerOfPassed(outcome: object): PassedAnswer {
  const one = outcome as Outcome
  if (!('code' in one)) return one
  throw REFUSAL_BY_CODE.has(one.code) ? new Refusal(one.code, one.facts) : new Refusal('internal')
}

export function leadOf(answer: unknown): Lead {
  parseLead(answer)
  return answer as Lead
}
