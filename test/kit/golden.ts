/** Compares a text with its golden file, and blocks of a document with those made here; `UPDATE_GOLDEN=1` writes them. */
import { expect } from 'bun:test'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export function expectGolden(name: string, value: unknown): void {
  const path = join(import.meta.dir, '../golden', name)
  const text = `${JSON.stringify(value, null, 2)}\n`
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(path, text)
  expect(
    existsSync(path) ? readFileSync(path, 'utf8') : '',
    `test/golden/${name} (received below) differs from what the code gives (expected below). If the difference is ` +
      'intended, accept it with `UPDATE_GOLDEN=1 bun run test test/routes test/docs`, and read `git diff test/golden` before you commit.',
  ).toBe(text)
}

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
