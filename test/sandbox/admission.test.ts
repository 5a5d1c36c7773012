/** A start on a busy machine: the demo account is admitted once the venue is ready. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { VenueProcess } from '../faults/kit/venue_process'

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
