/** A machine that clients reject opens no epoch: the venue stays up, is not ready, and states the reasons. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { EmbeddedTrading } from '../../kit/venue/embedded_trading'
import { refusalOf } from '../../kit/venue/refusal_of'

let world: EmbeddedTrading
beforeEach(async () => {
  world = new EmbeddedTrading()
  await world.open()
}, 120_000)
afterEach(() => world.site.remove())

test('reasons of the self-check bar the epoch and fence no instance; without them the next boot opens it', async () => {
  const { site, alice } = world
  const { epoch, boot_nonce } = await site.port.readConfig()
  await site.venue.drain()
  await site.venue.close()
  const self_check_reasons = [
    'the machine is under debug: the host reads its memory',
    'another manifest was measured',
  ]
  const rejected = await site.openVenue(site.dir, { self_check_reasons })
  expect(rejected.status()).toMatchObject({ ready: false, matching: 'stopped' })
  const [reason] = rejected.status().reasons
  for (const one of ['opens no epoch', ...self_check_reasons]) expect(reason).toContain(one)
  const refused = await refusalOf(rejected.cancelAll('alice', [alice.cancelAll()]))
  expect(refused.code).toBe('matching_unavailable')
  const unchanged = await site.port.readConfig()
  expect([unchanged.epoch, unchanged.boot_nonce]).toEqual([epoch, boot_nonce])
  await rejected.drain()
  await rejected.close()
  const accepted = await site.openVenue(site.dir, { self_check_reasons: [] })
  expect(accepted.status().matching).toBe('running')
  expect((await site.port.readConfig()).epoch).toBe(epoch + 1)
})
