/** The guest agent's JSON transport on a unix socket: POST or GET, `/Method` or `/v0/Method`, 200, 400 or 404. */
import { chmodSync } from 'node:fs'

export type AgentRequest = Record<string, unknown>
/** Thrown by a method for a bad request; the message goes into the 400 body. */
export class BadRequest extends Error {}
export type AgentMethods = ReadonlyMap<string, (request: AgentRequest) => Promise<unknown>>

/** Only the owner of the process may connect: whoever holds the socket holds every key. */
export function serveAgent(socket: string, methods: AgentMethods): { stop(): Promise<void> } {
  const server = Bun.serve({
    unix: socket,
    development: false,
    fetch: (request) => answer(request, methods),
  })
  chmodSync(socket, 0o600)
  return { stop: () => server.stop(true) }
}

async function answer(request: Request, methods: AgentMethods): Promise<Response> {
  const url = new URL(request.url)
  const name = /^(?:\/v0)?\/([A-Za-z]+)$/.exec(url.pathname)?.[1]
  // An agent that serves v0 alone has no other mount: the answer is not JSON.
  if (name === undefined) return new Response('404 Not Found', { status: 404 })
  const method = methods.get(name)
  if (method === undefined) return Response.json({ error: `Service not found: ${name}` }, { status: 404 })
  try {
    return Response.json(await method(await parameters(request, url)))
  } catch (error) {
    if (error instanceof BadRequest) return Response.json({ error: error.message }, { status: 400 })
    throw error
  }
}

async function parameters(request: Request, url: URL): Promise<AgentRequest> {
  if (request.method === 'GET') return Object.fromEntries(url.searchParams)
  if (request.method !== 'POST') throw new BadRequest('only GET and POST are served')
  const text = await request.text()
  if (text === '') return {}
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw new BadRequest('the body is not JSON')
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw new BadRequest('expected an object')
  return body as AgentRequest
}
