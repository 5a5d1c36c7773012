/** The manifest of routes, its names and its mounting; the messages for a route without a row or with one that does not fit. */

import { expect, test } from 'bun:test'
import { KnownUrls } from '../../server/edge/answer'
import { baseApp, mount } from '../../server/edge/app'
import { endpoint, type MountedRoute } from '../../server/edge/endpoint'
import { openMeters } from '../../server/edge/meters'
import type { Services } from '../../server/edge/services'
import { MANIFEST } from '../../server/manifest'
import { currentRoutes, manifestText, routesOf, staleManifest } from '../../tools/routes_manifest'
import { only } from '../kit/server/harness'
import { against, ELSEWHERE, endpointOf } from './against'
import { explained, missing } from './explain_rows'
import { ROWS, type Row } from './rows'

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
