/** The manifest of routes, its messages, and `dev`, under which route files come, break, move and go. */

import { afterAll, expect, test } from 'bun:test'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scripts } from '../../package.json'
import { KnownUrls } from '../../server/edge/answer'
import { baseApp, mount } from '../../server/edge/app'
import { endpoint, type MountedRoute } from '../../server/edge/endpoint'
import { openMeters } from '../../server/edge/meters'
import type { Services } from '../../server/edge/services'
import { MANIFEST } from '../../server/manifest'
import { currentRoutes, manifestText, routesOf, staleManifest } from '../../tools/routes_manifest'
import { only } from '../kit/server/harness'
import { explained, missing } from './explain_rows'
import { against, ELSEWHERE, endpointOf, ROWS, type Row } from './rows'

test('a file name is path and method', () => {
  expect(routesOf(['orders/[order_id].get.ts', 'orders.post.ts', 'ws/fills.ws.ts'])).toEqual([
    { file: 'orders.post.ts', method: 'post', path: '/orders' },
    { file: 'orders/[order_id].get.ts', method: 'get', path: '/orders/{order_id}' },
    { file: 'ws/fills.ws.ts', method: 'ws', path: '/ws/fills' },
  ])
  expect(routesOf(['account/get.ts'])).toEqual([{ file: 'account/get.ts', method: 'get', path: '/account' }])
  expect(() => routesOf(['account/get.ts', 'account.get.ts'])).toThrow('the same endpoint')
  for (const file of ['get.ts', 'account/.get.ts', 'account/fetch.ts'])
    expect(() => routesOf([file])).toThrow(`routes/${file}`)
})

test('names that are no endpoint are refused with the file named', () => {
  for (const file of [
    'orders.ts',
    'orders.fetch.ts',
    'Orders.get.ts',
    '[].get.ts',
    'a//b.get.ts',
    'orders.test.ts',
    '_shared.ts',
    'a/_b/c.get.ts',
  ]) {
    expect(() => routesOf([file])).toThrow(`routes/${file}`)
  }
})

test('the same endpoint twice is refused', () => {
  expect(() => routesOf(['a/[x].get.ts', 'a/[y].get.ts'])).toThrow('the same endpoint')
  expect(() => routesOf(['ws/a.ws.ts', 'ws/a.get.ts'])).toThrow('the same endpoint')
})

test('the committed manifest is current', () => {
  expect(staleManifest() ?? 'current').toBe('current')
})

test('a new route adds one line to the manifest and changes no other', () => {
  const routes = currentRoutes()
  for (const index of routes.keys()) {
    const before = manifestText(routes.toSpliced(index, 1)).split('\n')
    const after = manifestText(routes).split('\n')
    const added = after.filter((line) => !before.includes(line))
    expect(added.length).toBe(1)
    expect(after.filter((line) => line !== added[0])).toEqual(before)
  }
})

test('the manifest lists every route file once, sorted by path', () => {
  const listed = MANIFEST.map(({ method, path }) => `${path} ${method}`)
  expect(listed).toEqual(listed.toSorted())
  expect(listed.length).toBe(currentRoutes().length)
})

test('which route answers does not depend on the order of mounting', async () => {
  const named = MANIFEST.map(({ method, path }) => ({ method, path, route: naming(`${method} ${path}`) }))
  const forwards = appOf(named)
  const backwards = appOf(named.toReversed())
  const fillers = ['check', 'cancel-all', 'x', '1b'.repeat(16)]
  const paths = new Set(
    MANIFEST.flatMap(({ path }) => fillers.map((filler) => path.replace(/\{[^}]+\}/g, filler))),
  )
  for (const path of paths) {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS']) {
      const answered = await answerOf(forwards, method, path)
      expect(await answerOf(backwards, method, path)).toEqual(answered)
    }
  }
  for (const { method, path } of named) {
    const { status, text } = await answerOf(forwards, method.toUpperCase(), path.replace(/\{[^}]+\}/g, 'x'))
    expect([status, text]).toEqual([200, `${method} ${path}`])
  }
})

/** A route that answers with its own name. */
function naming(name: string) {
  return endpoint({ summary: name, tag: 'operations', answer: { status: 200, text: 'text/plain' } }, () => ({
    content_type: 'text/plain',
    body: name,
  }))
}

function appOf(manifest: readonly MountedRoute[]) {
  const services = only<Services>('services', { meters: openMeters(), urls: new KnownUrls() })
  const app = baseApp(services)
  mount(app, manifest, services, () => undefined)
  return app.compile()
}

async function answerOf(app: ReturnType<typeof appOf>, method: string, path: string) {
  const response = await app.fetch(new Request(`http://localhost${path}`, { method }))
  const text = await response.text()
  const allow = response.headers.get('allow')
  return { status: response.status, allow, text: response.ok || text === '' ? text : JSON.parse(text).code }
}

const rowOf = (name: string): Row => ROWS.find(({ endpoint }) => endpoint === name)!

async function explanation(row: Row): Promise<string> {
  let text = ''
  await against(
    row,
    () => row.gives,
    async (harness, send) => {
      text = explained(row, await send(), harness)
    },
  )
  return text
}

test('the message for a route without a row holds the line to add', async () => {
  expect(await missing('get /time')).toStartWith('routes/time.get.ts has no row. Add this line to ROWS')
  expect(await missing('get /time')).toContain(
    "  row('get /time', { open: true, gives: { slot: 1, unix_ms: 1, slot_ms: 1 }, venue: 'time' }),\n",
  )
  const order = await missing('get /orders/{order_id}')
  expect(order).toContain(`path: '${rowOf('get /orders/{order_id}').path}'`)
  expect(order).toContain("own: 'order' }),")
  expect(await missing('post /orders')).toContain("row('post /orders', { status: 202, json: { order_id: ")
  expect(await missing('get /health')).toContain("row('get /health', { open: true, answers: { status: 'ok'")
  expect(await missing('get /swagger')).toContain("add 'get /swagger' to ELSEWHERE")
})

test('there is a message for every endpoint', async () => {
  for (const name of [...ROWS.map(({ endpoint }) => endpoint), ...ELSEWHERE]) {
    expect(endpointOf(name)).toBeDefined()
    expect(await missing(name)).toContain(`'${name}'`)
  }
})

test('the message for a row that does not fit names the field to change', async () => {
  const row = rowOf('get /time')
  expect(await explanation({ ...row, venue: 'status' })).toContain("Write `venue: 'time'`.")
  expect(await explanation({ ...row, gives: { slot: 'x' } })).toMatch(
    /declares at `(slot|unix_ms|slot_ms)`\./,
  )
  expect(await explanation({ ...row, status: 202 })).toContain('Write `status: 200`.')
  const order = rowOf('post /orders')
  expect(await explanation({ ...order, json: { ...(order.json as object), side: 'both' } })).toContain(
    'rejected with 400 field_invalid at `side`. Correct `path` or `json`.',
  )
})

const ROOT = join(import.meta.dir, '../..')
/** Not needed to run a venue; and `dev` must not write into this copy's packages. */
const LEFT_OUT = ['node_modules', '.git', 'dist', 'data', 'test', 'bench', 'program/target']
const STEP_MS = 90_000

const scratch = mkdtempSync(join(tmpdir(), 'tacit-dev-'))
const data_dir = join(scratch, 'data')
const left_out = new Set(LEFT_OUT.map((name) => join(ROOT, name)))
cpSync(ROOT, scratch, { recursive: true, filter: (path) => !left_out.has(path) })
symlinkSync(join(ROOT, 'node_modules'), join(scratch, 'node_modules'))

const main = scripts.dev.split(' ').at(-1)!
const dev = Bun.spawn([process.execPath, main], {
  cwd: scratch,
  env: {
    PATH: process.env['PATH'] ?? '',
    TACIT_DATA_DIR: data_dir,
    TACIT_LISTEN: '127.0.0.1:0',
    TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    TACIT_SLOT_MS: '25',
  },
  stdout: 'ignore',
  stderr: 'pipe',
  // A separate process group, as a terminal gives a command.
  detached: true,
})
let printed = ''
const printing = (async () => {
  for await (const bytes of dev.stderr) printed += new TextDecoder().decode(bytes)
})()

afterAll(() => {
  if (isGroupAlive()) process.kill(-dev.pid, 'SIGKILL')
  rmSync(scratch, { recursive: true, force: true })
})

function isGroupAlive(): boolean {
  try {
    process.kill(-dev.pid, 0)
    return true
  } catch {
    return false
  }
}

/** Polls until `check` gives true; a failing check is one more poll. */
async function until(name: string, check: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + STEP_MS
  while (performance.now() < deadline) {
    if (dev.exitCode !== null) break
    if (
      await Promise.resolve()
        .then(check)
        .catch(() => false)
    )
      return
    await Bun.sleep(25)
  }
  throw new Error(`no ${name} within ${STEP_MS} ms; dev printed:\n${printed}`)
}

async function statusOf(path: string): Promise<number> {
  const { url, certificate } = JSON.parse(readFileSync(join(data_dir, 'laptop.json'), 'utf8'))
  const answer = await fetch(url + path, { tls: { ca: readFileSync(certificate, 'utf8') } })
  await answer.body?.cancel()
  return answer.status
}
const answers = (path: string, status: number) =>
  until(`${status} of ${path}`, async () => (await statusOf(path)) === status)
const prints = (text: string, from: number) =>
  until(`message "${text}"`, () => printed.slice(from).includes(text))

test('route files come, break, move and go without a restart of dev, and Ctrl-C ends every process', async () => {
  const file = (name: string) => join(scratch, 'routes', name)
  const route = readFileSync(file('instruments/[symbol].get.ts'), 'utf8')
  await answers('/time', 200)
  expect(await statusOf('/added/SOL-USDC')).toBe(404)

  // A new file in a new folder.
  mkdirSync(file('added'))
  writeFileSync(file('added/[symbol].get.ts'), route)
  await answers('/added/SOL-USDC', 200)

  // A file that throws: the message names it, and the venue keeps serving.
  let mark = printed.length
  writeFileSync(file('added/[symbol].get.ts'), `${route}\nthrow new Error('broken on purpose')\n`)
  await prints('routes/added/[symbol].get.ts does not load: broken on purpose', mark)
  await prints('The running venue keeps serving without it;', mark)
  expect(await statusOf('/added/SOL-USDC')).toBe(200)

  // A file without a route, and one that is misnamed.
  mark = printed.length
  writeFileSync(file('added/[symbol].get.ts'), '')
  await prints('routes/added/[symbol].get.ts has no route.', mark)
  mark = printed.length
  writeFileSync(file('misnamed.ts'), route)
  await prints('routes/misnamed.ts: this is not the name of a route.', mark)
  expect(printed).not.toMatch(/^ +at /m)

  // Corrected and renamed.
  rmSync(file('misnamed.ts'))
  writeFileSync(file('added/[symbol].get.ts'), route)
  renameSync(file('added'), file('moved'))
  await answers('/moved/SOL-USDC', 200)
  expect(await statusOf('/added/SOL-USDC')).toBe(404)

  rmSync(file('moved'), { recursive: true })
  await answers('/moved/SOL-USDC', 404)
  expect(await statusOf('/time')).toBe(200)

  // As a terminal sends Ctrl-C.
  process.kill(-dev.pid, 'SIGINT')
  expect(await dev.exited).toBe(0)
  await printing
  expect(isGroupAlive()).toBe(false)
}, 120_000)
