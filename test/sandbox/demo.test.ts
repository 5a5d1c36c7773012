/** The demo as a person meets it who ends it early; running it shows the whole story. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MAIN = join(import.meta.dir, '../../sandbox/demo/main.ts')
const data_dir = mkdtempSync(join(tmpdir(), 'demo-'))
afterAll(() => rmSync(data_dir, { recursive: true, force: true }))

test('a demo that is ended ends its venue, and leaves the folder to the next one', async () => {
  const child = Bun.spawn([process.execPath, MAIN, '--data', data_dir], {
    stdout: 'ignore',
    stderr: 'ignore',
  })
  const path = join(data_dir, 'laptop.json')
  while (!existsSync(path)) {
    expect(child.exitCode).toBe(null)
    await Bun.sleep(20)
  }
  const { url, certificate } = JSON.parse(readFileSync(path, 'utf8')) as Record<string, string>
  const asked = () => fetch(`${url}/health`, { tls: { ca: readFileSync(certificate!, 'utf8') } })
  expect((await asked()).status).toBe(200)
  child.kill('SIGTERM')
  expect(await child.exited).toBe(143)
  const after = await asked().then(
    ({ status }) => `answers ${status}`,
    () => 'gone',
  )
  expect(after).toBe('gone')
}, 180_000)
