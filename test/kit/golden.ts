/** Compares a text with its golden file; `UPDATE_GOLDEN=1` writes it, for a reviewer to read the difference. */

import { expect } from 'bun:test'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export function expectGolden(name: string, value: unknown): void {
  const path = join(import.meta.dir, '../golden', name)
  const text = `${JSON.stringify(value, null, 2)}\n`
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(path, text)
  expect(existsSync(path) ? readFileSync(path, 'utf8') : '').toBe(text)
}
