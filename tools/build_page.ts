/** Builds the verification page as one file with inline script and style; its content policy permits no others. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '..')
const SOURCES = join(ROOT, 'client/page')

/**
 * One file is one hash to pin, opens from a disk as from any server, and loads nothing.
 * @returns the path of the page.
 */
export async function buildPage(out: string): Promise<string> {
  const built = await Bun.build({
    entrypoints: [join(SOURCES, 'verify_page.ts')],
    target: 'browser',
    format: 'iife',
    minify: true,
    throw: true,
  })
  // An HTML parser ends a script at this text, even inside a string.
  const script = (await built.outputs[0]!.text()).replaceAll('</script', '<\\/script')
  const style = readFileSync(join(SOURCES, 'style.css'), 'utf8')
  const page = fill(readFileSync(join(SOURCES, 'index.html'), 'utf8'), {
    CSP: `<meta http-equiv="Content-Security-Policy" content="${policyFor(script, style)}">`,
    STYLE: `<style>${style}</style>`,
    SCRIPT: `<script>${script}</script>`,
  })
  mkdirSync(out, { recursive: true })
  const path = join(out, 'index.html')
  writeFileSync(path, page)
  return path
}

/** Venues and RPC endpoints are the user's choice, so connections are bounded by transport only. */
function policyFor(script: string, style: string): string {
  const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`
  return [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    'img-src data:',
    'connect-src https: http://127.0.0.1:* http://localhost:*',
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

if (import.meta.main) console.log(await buildPage(join(ROOT, 'dist/page')))
