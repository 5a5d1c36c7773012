/** Rows that the next snapshot takes from the state. */
import { expect, test } from 'bun:test'
import { coverable, queuesOf, rowsToTake, rowsWaiting } from '../../../engine/machine/state/past'
import { key, seeded, World } from '../../kit/venue/machine_world'

test('all that wait but the nullifiers of batches that have not landed', () => {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name, { orders_live_max: 1_000 })
  const hashed = () => {
    world.place('alice', key('a'))
    world.place('bob', key('b'), { side: 'sell' })
    world.close()
    world.hashAll()
  }
  hashed()
  world.landBatches()
  expect([rowsWaiting(world.state) > 0, rowsToTake(world.state)]).toEqual([true, rowsWaiting(world.state)])
  const covered = coverable(world.state)
  const hashes = { state_hash: seeded('state'), catalogue_hash: seeded('catalogue') }
  world.must({ kind: 'snapshot_taken', seq: world.journal.length, ...hashes, covered })
  const left = rowsToTake(world.state)
  expect(left).toBe(rowsWaiting(world.state))
  const before = queuesOf(world.state).nullifiers.size
  hashed()
  const spent = queuesOf(world.state).nullifiers.size - before
  expect([spent > 0, rowsToTake(world.state)]).toEqual([true, rowsWaiting(world.state) - spent])
  world.landBatches()
  expect(rowsToTake(world.state)).toBe(rowsWaiting(world.state))
})
