/** Builds each page as one file with inline script and style; its content policy permits no others. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PageDefaults } from './gateway'

/** Each has a script `NAME_page.ts` and a frame `NAME.html` beside this file. */
export const PAGES = ['market', 'trade', 'verify'] as const
export type PageName = (typeof PAGES)[number]

/**
 * One file is one hash to pin, opens from a disk as from any server, and loads nothing.
 * @param defaults what the page begins with; absent for a page without a server
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
