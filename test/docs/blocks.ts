/** Compares the blocks of a document between `<!-- NAME -->` and `<!-- end -->` with those made here; UPDATE_GOLDEN=1 writes them. */
import { expect } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '../..')

export const readDocument = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

export function expectBlocks(path: string, made: Readonly<Record<string, string>>): void {
  const text = readDocument(path)
  const shown = new Set<string>()
  const whole = text.replace(/<!-- ([a-z_]+) -->\n[\s\S]*?<!-- end -->/g, (_, name: string) => {
    shown.add(name)
    return `<!-- ${name} -->\n${made[name] ?? 'no such block'}\n<!-- end -->`
  })
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(join(ROOT, path), whole)
  else expect(text).toBe(whole)
  expect([...shown].sort()).toEqual(Object.keys(made).sort())
}
