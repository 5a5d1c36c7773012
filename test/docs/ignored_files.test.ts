/** The files that README's commands write into the clone hold seeds and logins: neither git nor `bun run check` may see them. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '../..')
const read = (name: string): string => readFileSync(join(ROOT, name), 'utf8')
const WRITTEN = /--(?:seed-file|wallet|payer|out|bundle|operator-key) ([a-z][\w.-]*\.(?:hex|json|key))/g

test('git ignores each file that a command of README writes', () => {
  const ignored = read('.gitignore')
    .split('\n')
    .filter((line) => line.startsWith('/'))
  const names = [...read('README.md').matchAll(WRITTEN)].map(([, name]) => name!)
  expect(names).toContain('seed.hex')
  const seen = [...names, 'tacit.json', 'login.json', 'wallet.json.lock', 'wallet.json.history'].filter(
    (name) => !ignored.some((line) => new Bun.Glob(line.slice(1)).match(name)),
  )
  expect(seen).toEqual([])
})
