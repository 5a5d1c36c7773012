/** Writes the verification page as a file that needs no server. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildPage as buildText } from '../client/page/serve_pages'

/** @returns the path of the page. */
export async function buildPage(out: string): Promise<string> {
  mkdirSync(out, { recursive: true })
  const path = join(out, 'index.html')
  writeFileSync(path, await buildText('verify'))
  return path
}

if (import.meta.main) console.log(await buildPage(join(import.meta.dir, '../dist/page')))
