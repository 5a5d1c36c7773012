/** A backup is judged by its replay and by the chain, and stays as it was. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { verifyBackup } from '../../../engine/boot/verify_backup'
import { readDeployment } from '../../../engine/chain/client/read_vault'
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { EmbeddedTrading } from '../../kit/venue/embedded_site'
import { isAtRest } from '../../kit/venue/open_test_venue'

const world = new EmbeddedTrading()
const { site } = world
beforeAll(() => world.open(), 120_000)
afterAll(() => site.remove())

function backup(name: string): string {
  const to = join(site.dir, name)
  for (const part of ['journal', 'snapshots']) {
    if (existsSync(join(site.dir, part)))
      cpSync(join(site.dir, part), join(to, part), { recursive: true, filter: isAtRest })
  }
  return to
}
async function judged(dir: string) {
  const chain = await readDeployment([site.chain.url], site.chain.program_id!)
  return verifyBackup({ dir, keys: site.keys, chain })
}
const content = (dir: string) =>
  readdirSync(join(dir, 'journal'))
    .sort()
    .map((file) => toHex(sha256(readFileSync(join(dir, 'journal', file)))))

test('the newest backup may trade, by journal and snapshot alike; an older one may not', async () => {
  await site.venue.drain()
  const old = backup('old')
  await site.venue.close()
  await site.openVenue()
  await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  await site.venue.drain()
  const newest = backup('newest')
  const before = content(newest)
  const verdict = await judged(newest)
  const { journal_seq } = (await readDeployment([site.chain.url], site.chain.program_id!)).config
  expect(verdict).toMatchObject({ fault: undefined, epoch: 2, generation: 0, last_batch: 1, orders_live: 0 })
  expect(verdict.snapshot?.agrees).not.toBe(false)
  expect(verdict.seq).toBeGreaterThanOrEqual(journal_seq)
  expect(content(newest)).toEqual(before)
  expect((await judged(old)).fault).toBe('rolled_back')
}, 120_000)
