/** Compares a text with its golden file; `UPDATE_GOLDEN=1` writes it, for a reviewer to read the difference. */

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
      'intended, accept it with `UPDATE_GOLDEN=1 bun test test/routes`, and read `git diff test/golden` before you commit.',
  ).toBe(text)
}
