/** A restore that is announced while the venue goes on: it ends with the next position, also where nothing is matched. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { readDeployment } from '../../../engine/chain/client/read_vault'
import { publicKeyOf } from '../../../protocol/sign'
import { pauseInstruction } from '../../../protocol/vault/admin'
import { USDC } from '../../../sandbox/environment'
import { administerVault, announceRestore } from '../../kit/vault/open_vault'
import { EmbeddedTrading } from '../../kit/venue/embedded_site'

const world = new EmbeddedTrading()
const { site } = world
const ANCHOR_MAX_MS = 2_000
beforeAll(async () => {
  await site.openChain()
  await site.openVenue(site.dir, { anchor_max_ms: ANCHOR_MAX_MS })
  await world.admit()
}, 120_000)
afterAll(() => site.remove())

async function until(holds: () => boolean | Promise<boolean>) {
  while (!(await holds())) await Bun.sleep(20)
}
/** Nothing is left that is worth an anchor. */
async function untilAtRest() {
  for (
    let [stored, since_ms] = [-1, 0];
    performance.now() - since_ms < 2 * ANCHOR_MAX_MS;
    await Bun.sleep(100)
  ) {
    const { journal_seq } = await readVault()
    if (journal_seq !== stored) [stored, since_ms] = [journal_seq, performance.now()]
  }
}
const readVault = async () => (await readDeployment([site.chain.url], site.chain.program_id!)).config

test('a paused venue with nothing to store makes it void, and no folder begins a journal by it', async () => {
  const money = await world.deposited(world.alice, USDC, 300_000_000n)
  const expiry_slot = site.venue.time().slot + 5_000
  await site.venue.place('alice', world.alice.place(money, { price_limit: '90000000', expiry_slot }))
  const { admin_seed, program_id } = site.chain
  const admin = publicKeyOf(admin_seed)
  await administerVault([site.chain.url], [admin_seed], pauseInstruction({ program: program_id!, admin }), 0n)
  await until(() => site.venue.status().matching === 'paused')
  await untilAtRest()
  const { journal_seq } = await readVault()
  const wait_s = await announceRestore(site.chain)
  expect((await readVault()).pending).toMatchObject([{ action: 'authorize_restore' }])
  await until(async () => (await readVault()).pending.length === 0)
  expect((await readVault()).journal_seq).toBeGreaterThan(journal_seq)
  await site.venue.close()
  site.chain.warpTime(wait_s)
  await site.openVenue(join(site.dir, 'empty'))
  expect(site.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  expect(site.venue.status().reasons.join()).toContain('rolled_back')
}, 120_000)

test('a vault that never had an epoch has nothing to restore: its first start serves', async () => {
  const { site: fresh } = new EmbeddedTrading()
  await fresh.openChain()
  await announceRestore(fresh.chain)
  const venue = await fresh.openVenue()
  expect(venue.identity()).toMatchObject({ generation: 0, epoch: 1 })
  expect((await fresh.port.readConfig()).pending).toEqual([])
  await fresh.remove()
}, 60_000)
