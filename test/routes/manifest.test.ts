/** The manifest of routes: what a file's name means, what is refused, and that the committed one is current. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Glob } from 'bun'
import { manifestText, routesOf } from '../../tools/routes_manifest'

test('a file name is path and method', () => {
  expect(routesOf(['orders/[order_id].get.ts', 'orders.post.ts', 'ws/fills.ws.ts'])).toEqual([
    { file: 'orders.post.ts', method: 'post', path: '/orders' },
    { file: 'orders/[order_id].get.ts', method: 'get', path: '/orders/{order_id}' },
    { file: 'ws/fills.ws.ts', method: 'ws', path: '/ws/fills' },
  ])
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
  const root = join(import.meta.dir, '../..')
  const files = [...new Glob('**/*.ts').scanSync({ cwd: join(root, 'routes') })]
  expect(readFileSync(join(root, 'server/manifest.gen.ts'), 'utf8')).toBe(manifestText(routesOf(files)))
})
