/** The demo as a person meets it who ends it early; running it shows the whole story. */

import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { available, DemoFailed } from '../../sandbox/demo/report'
import { VenueProcess } from '../faults/kit/venue_process'
import { chainFolder } from '../kit/chain/chain_folder'

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

test('the demo goes on after a pause of its machine, and ends at any other refusal', async () => {
  const attempt = (codes: string[]) => async () => {
    const code = codes.shift()
    if (code !== undefined) throw new DemoFailed(code, code)
    return 'accepted'
  }
  expect(await available(attempt(['lease_lost', 'reopening', 'unanchored']))).toBe('accepted')
  await expect(available(attempt(['note_in_use']))).rejects.toThrow('note_in_use')
})

const venue = new VenueProcess({}, [new URL('./busy_operator.ts', import.meta.url).pathname])
afterAll(() => venue.remove())

test('a start whose first admissions are refused for a lost lease ends with an admitted demo account', async () => {
  await venue.start()
  expect(venue.output.match(/refused call \d/g)).toEqual([
    'refused call 1',
    'refused call 2',
    'refused call 3',
  ])
  const path = join(venue.data_dir, 'demo-login.json')
  expect(existsSync(path)).toBe(true)
  expect(JSON.parse(readFileSync(path, 'utf8')).login.account_id).toMatch(/^[0-9a-f]{64}$/)
}, 180_000)

const ALLOWED = 'access-control-allow-origin'

test('a page of this machine may ask, a page from elsewhere may not', async () => {
  const folder = chainFolder()
  const chain = await openEmbeddedChain({ data_dir: folder.dir, slot_ms: 20 })
  const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
  const ask = (method: 'OPTIONS' | 'POST', origin: string) =>
    fetch(chain.url, {
      method,
      headers: { origin, 'content-type': 'application/json' },
      ...(method === 'POST' ? { body } : {}),
    })
  try {
    for (const origin of ['http://127.0.0.1:8080', 'https://localhost']) {
      const preflight = await ask('OPTIONS', origin)
      expect(preflight.headers.get(ALLOWED)).toBe(origin)
      expect(preflight.headers.get('access-control-allow-headers')).toBe('content-type, solana-client')
      expect((await ask('POST', origin)).headers.get(ALLOWED)).toBe(origin)
    }
    for (const origin of [
      'null',
      'https://example.com',
      'http://localhost.example',
      'http://127.0.0.1.example',
    ]) {
      expect((await ask('OPTIONS', origin)).headers.get(ALLOWED)).toBeNull()
      expect((await ask('POST', origin)).headers.get(ALLOWED)).toBeNull()
    }
  } finally {
    await chain.close()
    folder.remove()
  }
})
