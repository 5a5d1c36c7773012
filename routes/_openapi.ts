/** The OpenAPI document of all routes: `@elysiajs/swagger` reads the contracts, `_openapi_fix.ts` makes the result valid. */
import { swagger } from '@elysiajs/swagger'
import { Elysia } from 'elysia'
import { REFUSAL_BY_CODE } from '../protocol/refusals'
import { declaredRefusals } from './_declared'
import type { Endpoint } from './_endpoint'
import type { MountedRoute } from './_mount'
import { fixDocument, type OpenApi } from './_openapi_fix'
import { COST } from './_rate'
import type { Stream } from './_stream'
import { StreamQuery } from './_upgrade'
import { exact, type TSchema, t } from './_wire'

const DESCRIPTION = `Confidential trading venue: sealed batch auctions inside an attested Intel TDX machine, settled on Solana.
Amounts, prices and nonces are decimal strings; ids, commitments and order signatures are lowercase hex.
Keys, mints and transaction signatures are base58; slots, seq and milliseconds are integers.
Errors are application/problem+json with a stable code and \`applied\`; any 4xx but an identical resend was not applied.
REST and sockets draw on one bucket per account, whose size and refill \`RateLimit-Policy\` names; an empty one answers 429.
A place costs ${COST.place}, a cancel ${COST.cancel}, a modify ${COST.modify}, a read ${COST.read}.
A withdrawal or a reshape costs ${COST.withdraw}.`

export const Problem = exact({
  type: t.String(),
  title: t.String(),
  status: t.Integer(),
  detail: t.String(),
  code: t.String(),
  message: t.String(),
  request_id: t.String(),
  applied: t.Union([t.Literal('no'), t.Literal('yes'), t.Literal('unknown')]),
  field: t.Optional(t.String()),
  nonce_last: t.Optional(t.String()),
  retry_after_ms: t.Optional(t.Integer()),
  status_now: t.Optional(t.String()),
  subsystem: t.Optional(t.String()),
  result: t.Optional(t.Unknown()),
})

/** Deterministic for a manifest and version: the golden file holds it. */
export async function openApiOf(manifest: readonly MountedRoute[], version: string): Promise<OpenApi> {
  const app = new Elysia().use(
    swagger({
      path: '/swagger',
      excludeStaticFile: false,
      exclude: ['/swagger', '/swagger/json'],
      documentation: {
        info: { title: 'Tacit', version, description: DESCRIPTION },
        components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
        tags: TAGS.map(([name, description]) => ({ name, description })),
      },
    }),
  )
  for (const { method, path, route } of manifest) {
    // The plugin serves a document of its own at these two paths, so ours are listed under their names afterwards.
    const router_path = path.startsWith('/swagger') ? `/-${path}` : path
    app.route(
      method.toUpperCase(),
      router_path.replace(/\{([^}]+)\}/g, ':$1'),
      (() => '') as never,
      hooksOf(route) as never,
    )
  }
  const response = await app.handle(new Request('http://localhost/swagger/json'))
  return fixDocument((await response.json()) as OpenApi, manifest, Problem)
}

const TAGS = [
  ['account', 'Log in, log out.'],
  ['orders', 'Commands signed by trading keys, and what became of them.'],
  ['notes', 'Notes, withdrawals and the tree of commitments.'],
  ['settlement', 'How matched orders land on chain.'],
  ['market', 'Instruments.'],
  ['trust', 'What proves the venue.'],
  ['operations', 'Liveness, readiness, time, reference.'],
  ['streams', 'WebSocket paths.'],
] as const

function hooksOf(route: Endpoint | Stream): Record<string, unknown> {
  const codes = declaredRefusals(route)
  const refused = Object.fromEntries(codes.map((code) => [REFUSAL_BY_CODE.get(code)!.status, Problem]))
  if (route.kind === 'stream') {
    const { summary, description } = route.contract
    return {
      query: StreamQuery,
      response: { 101: t.String(), ...refused },
      detail: { summary, description, tags: ['streams'] },
    }
  }
  const { contract } = route
  const success: TSchema = 'text' in contract.answer ? t.String() : contract.answer.body
  return {
    parse: 'json',
    ...(contract.params === undefined ? {} : { params: contract.params }),
    ...(contract.query === undefined ? {} : { query: contract.query }),
    ...(contract.body === undefined ? {} : { body: contract.body }),
    response: { [contract.answer.status]: success, ...refused },
    detail: {
      summary: contract.summary,
      ...(contract.description === undefined ? {} : { description: contract.description }),
      tags: [contract.tag],
      ...(contract.bearer === undefined ? {} : { security: securityOf(contract.bearer) }),
    },
  }
}

/** An optional token is either the scheme or nothing. */
function securityOf(bearer: true | 'optional'): Record<string, never[]>[] {
  return bearer === true ? [{ bearer: [] }] : [{ bearer: [] }, {}]
}
