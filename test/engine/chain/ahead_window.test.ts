/** How many batches go ahead follows from how they land. */
import { expect, test } from 'bun:test'
import { AheadWindow } from '../../../engine/chain/relayer/batch'
import { LIMITS } from '../../../engine/limits'

const { batches_ahead_max: FULL, batches_in_order: RUN } = LIMITS

test('an overtaking halves the window, whatever number of batches it fails', () => {
  const window = new AheadWindow()
  expect(window.size).toBe(FULL)
  for (let batch_id = 5; batch_id <= 40; batch_id++) window.overtaken(batch_id, 40)
  expect(window.size).toBe(FULL / 2)
  window.overtaken(41, 41)
  expect(window.size).toBe(FULL / 4)
})

test('a cluster that reorders whatever goes ahead gets batches one by one', () => {
  const window = new AheadWindow()
  for (let batch_id = 1; window.size > 0; batch_id++) window.overtaken(batch_id, batch_id)
  window.landed(RUN - 1)
  expect(window.size).toBe(0)
  window.landed(RUN)
  expect(window.size).toBe(1)
})

test('each run of batches that land in order doubles it, up to the limit', () => {
  const window = new AheadWindow()
  window.overtaken(1, 1)
  window.overtaken(2, 2)
  expect(window.size).toBe(FULL / 4)
  window.landed(RUN)
  expect(window.size).toBe(FULL / 2)
  window.landed(2 * RUN - 1)
  expect(window.size).toBe(FULL / 2)
  for (let run = 2; run <= 5; run++) window.landed(run * RUN)
  expect(window.size).toBe(FULL)
})

test('an overtaking begins the count anew, and a fork lets nothing count twice', () => {
  const window = new AheadWindow()
  window.overtaken(1, 1)
  window.landed(RUN - 1)
  window.overtaken(RUN, RUN)
  window.landed(RUN + 1)
  expect(window.size).toBe(FULL / 4)
  const other = new AheadWindow()
  other.overtaken(1, 1)
  other.landed(RUN - 1)
  other.landed(1)
  other.landed(RUN - 1)
  expect(other.size).toBe(FULL / 2)
})
