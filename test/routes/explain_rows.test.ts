/** The messages for a route without a row, and for a row that does not fit its route. */
import { expect, test } from 'bun:test'
import { against, ELSEWHERE, endpointOf } from '../routes/against'
import { ROWS, type Row } from '../routes/rows'
import { explained, missing } from './explain_rows'

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
