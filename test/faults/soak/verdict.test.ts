/** Shows that the verdict on a soak fails for planted leaks, slow venues and lost or doubled orders. */
import { expect, test } from 'bun:test'
import { differences, isJudged, judge, type Sample } from './verdict'

const LOAD = 1_000
const MINUTES = 60
const ROUGH = [0.95, 1.05, 1, 0.9, 1.1]
const KILLS = [5, 10, 15, 20, 25, 30, 55]

function samples(change: (minute: number, kills: number) => Partial<Sample> = () => ({})): Sample[] {
  return Array.from({ length: MINUTES }, (_, minute) => {
    const kills = KILLS.filter((at) => at <= minute).length
    const rough = ROUGH[minute % ROUGH.length]!
    const flat = {
      resident_mb: 300 * rough,
      descriptors: 600,
      load_p50_ms: 3 * rough,
      load_p99_ms: 20 * rough,
    }
    return { minute, kills, load_per_s: LOAD * rough, ...flat, ...change(minute, kills) }
  })
}
const names = (of: Sample[]) => judge(of, LOAD).map((fault) => fault.split(' ')[0]!)

test('a flat soak passes, and so does one that warms up in its first third', () => {
  expect(judge(samples(), LOAD)).toEqual([])
  const warming = samples((minute) => (minute < 20 ? { resident_mb: 200 + 5 * minute, load_p50_ms: 30 } : {}))
  expect(judge(warming, LOAD)).toEqual([])
})

for (const name of ['resident_mb', 'descriptors', 'load_p50_ms', 'load_p99_ms'] as const)
  test(`a ${name} that rises over the whole soak is found`, () => {
    expect(names(samples((minute) => ({ [name]: 10 + 5 * minute })))).toContain(name)
    expect(names(samples((minute) => ({ [name]: 100 - minute })))).toEqual([])
  })

test('slow minutes of a busy machine are not the venue', () => {
  const busy = samples((minute) =>
    minute > 40 && minute % 2 === 0 ? { load_p50_ms: 300, load_p99_ms: 4_000 } : {},
  )
  expect(judge(busy, LOAD)).toEqual([])
})

test('a leak that each kill frees is found in the longest life', () => {
  const leaky = samples((minute) => {
    const since = minute - Math.max(0, ...KILLS.filter((at) => at <= minute))
    return { resident_mb: 300 + 12 * since }
  })
  expect(judge(leaky, LOAD).join()).toContain('of the longest life')
})

test('a load that was not sustained is found, and NaN is never flat', () => {
  expect(names(samples(() => ({ load_per_s: LOAD / 2 })))).toEqual(['the'])
  expect(names(samples(() => ({ load_p99_ms: Number.NaN })))).toContain('load_p99_ms')
})

test('a short soak is not judged flat or not', () => {
  expect(isJudged(samples().slice(0, 8))).toBe(false)
  expect(isJudged(samples().slice(0, 9))).toBe(true)
})

test('after a restart a lost, a changed and a doubled order are found', () => {
  const event = (seq: number, kind: string, order_id: string) => ({ seq, kind, data: { order_id } }) as never
  const account = {
    slots: [
      { order_id: 'a', state: 'open' },
      { order_id: 'b', state: 'ready' },
      { order_id: 'c', state: 'placing' },
      { order_id: 'd', state: 'cancelling' },
    ],
    open: [{ order_id: 'a' }, { order_id: 'd' }],
    known: new Map([
      [1, 'placing a'],
      [4, 'cancelling z'],
    ]),
    events: [
      event(1, 'order.accepted', 'a'),
      event(2, 'order.accepted', 'z'),
      event(3, 'account.changed', ''),
      event(4, 'order.cancelled', 'z'),
    ],
  } as const
  const faults = (change: Partial<Parameters<typeof differences>[0]>) =>
    differences({ ...account, ...change })
  expect(faults({})).toEqual([])
  expect(faults({ open: [...account.open, { order_id: 'c' }] })).toEqual([])
  expect(faults({ open: [{ order_id: 'd' }] })).toEqual(['a is open and at the venue open: false'])
  for (const extra of ['a', 'b', 'z'])
    expect(faults({ open: [...account.open, { order_id: extra }] })).toHaveLength(1)
  expect(faults({ events: account.events.slice(0, 3) })).toHaveLength(1)
  expect(faults({ events: [...account.events, event(5, 'order.accepted', 'a')] })).toHaveLength(1)
})
