/** Rows of market statistics equal the published vectors, which other code made. */

import { expect, test } from 'bun:test'
import { sealStatisticsRow, statisticsRowBody } from '../../protocol/bodies/statistics_row'
import { fromHex, toHex } from '../../protocol/bytes'
import type { StatisticsPeriod } from '../../protocol/wire/public'
import vectors from '../vectors/statistics.json'

test('a row, shown or withheld, has its bytes and its hash', () => {
  const venue = fromHex(vectors.venue, 32)!
  const period = vectors.period as StatisticsPeriod
  for (const { body, row } of vectors.rows) {
    const { hash, ...rest } = row
    expect(toHex(statisticsRowBody(venue, vectors.symbol, period, rest))).toBe(body)
    expect(sealStatisticsRow(venue, vectors.symbol, period, rest)).toEqual(row)
    expect(hash).toHaveLength(64)
  }
})
