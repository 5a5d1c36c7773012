/** Rows as CSV: the schema's columns, a line for each row, quoted where a reader needs it. */

import { expect, test } from 'bun:test'
import { exact, t } from '../../protocol/wire/values'
import { csvOf } from '../../server/edge/answer'

test('columns are those of the schema, null is empty, and separators are quoted', () => {
  const body = exact({ rows: t.Array(exact({ name: t.String(), count: t.Integer(), note: t.String() })) })
  const rows = [
    { name: 'a', count: 1, note: null },
    { name: 'b,"c"', count: 0, note: 'd\ne' },
  ]
  expect(csvOf(body, 'rows')({ rows })).toBe('name,count,note\r\na,1,\r\n"b,""c""",0,"d\ne"\r\n')
})
