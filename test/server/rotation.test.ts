/** Certificates change under load: no request fails, no socket is lost, and every new connection sees the new key. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { ownNetwork } from '../kit/server/own_network'
import type { Seen } from '../kit/server/steady_load'

const ROTATIONS = 12

test('rotation under load fails no request and drops no socket', () => {
  const seen = ownNetwork()?.run(
    join(import.meta.dir, '../kit/server/rotate_under_load.ts'),
    String(ROTATIONS),
  ) as Seen | undefined
  if (seen === undefined) return
  expect(seen).toMatchObject({ failed: [], sockets_lost: 0 })
  // The first key may have gone before the first new connection.
  expect(seen.keys.length).toBeGreaterThanOrEqual(ROTATIONS)
  expect(seen.fresh).toBeGreaterThan(ROTATIONS)
  expect(seen.kept).toBeGreaterThan(ROTATIONS)
})
