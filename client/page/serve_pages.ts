/** Builds each page as one file with inline script and style, which its policy permits alone, and serves the pages. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ServerWebSocket } from 'bun'
import type { CredentialRequest } from '../../protocol/wire/trading'
import type { Transport } from '../api/venue_client'
import { HANDSHAKE_MS } from '../limits'
import { pinnedTransport, readPeer } from '../verify/collect/pinned_transport'
import { ADMIT_PATH, LOST_STATUS, type PageDefaults, PEER_PATH, VENUE_PATH } from './gateway'

/** Each has a script `NAME_page.ts` and a frame `NAME.html` in this folder. */
export const PAGES = ['market', 'trade', 'verify'] as const
type PageName = (typeof PAGES)[number]

/**
 * One file is one hash to pin, opens from a disk as from any server, and loads nothing.
 * @param defaults initial values of the page; absent for a page without a server
 */
export async function buildPage(name: PageName, defaults?: PageDefaults): Promise<string> {
  const built = await Bun.build({
    entrypoints: [join(import.meta.dir, `${name}_page.ts`)],
    target: 'browser',
    format: 'iife',
    // Of the transport of Node, which no page opens.
    external: ['undici'],
    minify: true,
    throw: true,
  })
  // An HTML parser ends a script at this text, even inside a string.
  const script = (await built.outputs[0]!.text()).replaceAll('</script', '<\\/script')
  const style = readFileSync(join(import.meta.dir, 'style.css'), 'utf8')
  const data = JSON.stringify(defaults ?? null).replaceAll('<', '\\u003c')
  const policy = policyFor(script, style, reachedBy(name, defaults))
  return fill(readFileSync(join(import.meta.dir, `${name}.html`), 'utf8'), {
    CSP: `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    STYLE: `<style>${style}</style>`,
    DEFAULTS: defaults === undefined ? '' : `<script type="application/json" id="defaults">${data}</script>`,
    SCRIPT: `<script>${script}</script>`,
  })
}

/**
 * Of the verification page, venues and nodes are the user's choice, so its connections are bounded by transport only. The
 * trade page reaches the venue through its own server, and the node that it was started with.
 */
function reachedBy(name: PageName, defaults: PageDefaults | undefined): string {
  if (name === 'verify') return 'https: http://127.0.0.1:* http://localhost:*'
  const has_node = name === 'trade' && defaults !== undefined && defaults.rpc_url !== ''
  return has_node ? `'self' ${new URL(defaults.rpc_url).origin}` : "'self'"
}

function policyFor(script: string, style: string, connect: string): string {
  const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  return [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    'img-src data:',
    `connect-src ${connect}`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
}

function fill(page: string, parts: Record<string, string>): string {
  return page.replace(/<!-- ([A-Z]+) -->/g, (_mark, name: string) => {
    const part = parts[name]
    if (part === undefined) throw new Error(`the page asks for ${name}`)
    return part
  })
}

type ServeOptions = {
  defaults: PageDefaults
  /** Preferred port; another when it is in use. */
  port: number
  /** Admits an account on a venue of this machine. */
  admit?(request: CredentialRequest): Promise<void>
}
type ServedPages = { readonly url: string; stop(): Promise<void> }
/** A socket of the page with the matching one of the venue, whose frames wait in `early` until the page's is open. */
type Bridge = { upstream: WebSocket; early: string[] }

const PATHS: Readonly<Record<string, PageName>> = { '/': 'market', '/trade': 'trade', '/verify': 'verify' }
const KEY_LENGTH = 64
const FORWARDED = ['authorization', 'content-type', 'accept']
const ANSWERED = ['content-type', 'retry-after']
const PROTECTION = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

export function servePages(options: ServeOptions): ServedPages {
  try {
    return serveAt(options, options.port)
  } catch (error) {
    if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
    return serveAt(options, 0)
  }
}

function serveAt({ defaults, admit }: ServeOptions, port: number): ServedPages {
  const venue = new URL(defaults.url)
  const pages = new Map<PageName, Promise<string>>()
  /** Only the key that was seen last: a page bound to an earlier one verifies again. */
  let current: { spki_sha256: string; transport: Transport } | undefined

  async function showPage(name: PageName): Promise<Response> {
    const built = pages.get(name) ?? buildPage(name, defaults)
    pages.set(name, built)
    return new Response(await built, {
      headers: { ...PROTECTION, 'content-type': 'text/html; charset=utf-8' },
    })
  }

  async function lookAtPeer(): Promise<Response> {
    const peer = await readPeer(venue, HANDSHAKE_MS)
    const { spki_sha256 } = peer
    if (current?.spki_sha256 !== spki_sha256)
      current = { spki_sha256, transport: await pinnedTransport(venue, peer) }
    return Response.json({ spki_sha256 }, { headers: PROTECTION })
  }

  /** @throws Error when the path names another key, or the connection fails */
  async function forward(request: Request, url: URL, upgrade: Upgrade): Promise<Response | undefined> {
    const after = url.pathname.slice(VENUE_PATH.length)
    const path = after.slice(KEY_LENGTH) + url.search
    if (current === undefined || after.slice(0, KEY_LENGTH) !== current.spki_sha256)
      throw new Error('another key')
    const { transport } = current
    if (request.headers.get('upgrade') === 'websocket') return bridge(transport.webSocket(path), upgrade)
    const { method } = request
    const body = method === 'GET' ? undefined : await request.text()
    const headers = pick(request.headers, FORWARDED)
    const answer = await transport.fetch(path, { method, headers, ...(body ? { body } : {}) })
    const bytes = await answer.arrayBuffer()
    return new Response(bytes, {
      status: answer.status,
      headers: { ...PROTECTION, ...pick(answer.headers, ANSWERED) },
    })
  }

  async function answer(request: Request, upgrade: Upgrade): Promise<Response | undefined> {
    const url = new URL(request.url)
    const name = PATHS[url.pathname]
    if (name !== undefined && request.method === 'GET') return showPage(name)
    if (url.pathname === PEER_PATH) return lookAtPeer()
    if (url.pathname.startsWith(VENUE_PATH)) return forward(request, url, upgrade)
    if (url.pathname !== ADMIT_PATH || request.method !== 'POST' || admit === undefined)
      return new Response('there is no such page\n', { status: 404 })
    await admit((await request.json()) as CredentialRequest)
    return new Response(null, { status: 204 })
  }

  const server = Bun.serve<Bridge>({
    hostname: '127.0.0.1',
    port,
    async fetch(request, listener) {
      // A foreign name that resolves to this machine, or a foreign page, reaches nothing; a link from one opens a page.
      if (!isOwn(request, listener.port!)) return new Response('not from here\n', { status: 403 })
      const upgrade = (data: Bridge) => listener.upgrade(request, { data })
      return answer(request, upgrade).catch(() => new Response(null, { status: LOST_STATUS }))
    },
    websocket: {
      open: openBridge,
      message: ({ data }, frame) => data.upstream.send(String(frame)),
      close: ({ data }) => data.upstream.close(),
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}

type Upgrade = (bridge: Bridge) => boolean

function isOwn(request: Request, port: number): boolean {
  const own = [`127.0.0.1:${port}`, `localhost:${port}`]
  const host = request.headers.get('host') ?? ''
  const origin = request.headers.get('origin')
  const [site, mode] = ['sec-fetch-site', 'sec-fetch-mode'].map((name) => request.headers.get(name))
  // A browser names no origin where a foreign page reads an image or a script from here.
  const is_asked_here = site === null || site === 'same-origin' || site === 'none'
  const is_link = mode === 'navigate' && Object.hasOwn(PATHS, new URL(request.url).pathname)
  return own.includes(host) && (origin === null || origin === `http://${host}`) && (is_asked_here || is_link)
}

const pick = (headers: Headers, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.flatMap((name) => (headers.has(name) ? [[name, headers.get(name)!]] : [])))

/** The page's socket opens only after the venue's did: the page sees a rejected upgrade as one. */
async function bridge(upstream: WebSocket, upgrade: Upgrade): Promise<Response | undefined> {
  const early: string[] = []
  upstream.onmessage = ({ data }) => early.push(String(data))
  await new Promise<void>((resolve, reject) => {
    upstream.onopen = () => resolve()
    upstream.onclose = () => reject(new Error('the venue refused the socket'))
  })
  if (upgrade({ upstream, early })) return undefined
  upstream.close()
  return new Response('expected a socket\n', { status: 400 })
}

function openBridge(socket: ServerWebSocket<Bridge>): void {
  const { upstream, early } = socket.data
  for (const frame of early) socket.send(frame)
  upstream.onmessage = ({ data }) => void socket.send(String(data))
  upstream.onclose = () => socket.close()
  if (upstream.readyState !== WebSocket.OPEN) socket.close()
}
