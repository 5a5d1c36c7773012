/** The history's thread writes in small pieces, and never two things at a time. */

import { expect, test } from 'bun:test'
import { writeGently } from '../../../engine/history/write_gently'
import type { ChainPoint } from '../../../protocol/units'

/** Batches of `steps` steps of 0.6 ms each; the thread rests until `wake` is called. */
function thread(steps: number, fails_at = Number.POSITIVE_INFINITY) {
  const log: string[] = []
  let now_ms = 0
  let wake = () => {}
  const writer = {
    write(_: unknown, { seq }: ChainPoint) {
      let left = steps
      return () => {
        now_ms += 0.6
        if (steps - left === fails_at) throw new Error('full')
        log.push(`step ${seq}`)
        return --left > 0
      }
    },
    abandon: () => log.push('abandoned'),
  }
  const pace = {
    nowMs: () => now_ms,
    rest() {
      log.push('rest')
      return new Promise<void>((resolve) => {
        wake = resolve
      })
    },
  }
  const writes = writeGently(
    writer,
    (watermark) => log.push(`written ${watermark}`),
    () => log.push('stalled'),
    () => log.push('failed'),
    pace,
  )
  const push = (seq: number) =>
    writes.push({ op: 'write', accounts: [], point: { seq, head: new Uint8Array(32) } })
  return { log, writes, push, wake: () => wake() }
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('a batch is written in pieces between which the thread rests', async () => {
  const { log, push, wake } = thread(5)
  push(1)
  expect(log).toEqual(['step 1', 'step 1', 'rest'])
  wake()
  await turn()
  expect(log.slice(3)).toEqual(['step 1', 'step 1', 'rest'])
  wake()
  await turn()
  expect(log.slice(6)).toEqual(['step 1', 'written 1'])
})

test('with another batch behind it, it is written without a rest, and then the other', async () => {
  const { log, push, wake } = thread(3)
  push(1)
  push(2)
  expect(log).toEqual(['step 1', 'step 1', 'rest'])
  wake()
  await turn()
  expect(log.slice(3)).toEqual(['step 1', 'written 1', 'step 2', 'step 2', 'rest'])
})

test('what waits for the database to be free waits for all that is half written', async () => {
  const { log, push, wake, writes } = thread(3)
  push(1)
  const free = writes.idle().then(() => log.push('free'))
  push(2)
  wake()
  await turn()
  expect(log).not.toContain('free')
  wake()
  await free
  expect(log.slice(-2)).toEqual(['written 2', 'free'])
})

test('a batch that fails is told once, and nothing is written after it', async () => {
  const { log, push, writes } = thread(3, 1)
  push(1)
  await turn()
  push(2)
  await turn()
  expect(log).toEqual(['step 1', 'abandoned', 'failed'])
  expect(await writes.idle().catch(() => 'refused')).toBe('refused')
})
