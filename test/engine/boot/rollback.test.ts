/** Older disks and clones on the real chain: which may trade, the reason of those that may not, and no money is lost. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { openJournal } from '../../../engine/journal/open_journal'
import { RECEIPT_BODY } from '../../../protocol/bodies/statements'
import { fromHex } from '../../../protocol/bytes'
import { verifySignature } from '../../../protocol/ed25519'
import { EmbeddedTrading, soon } from '../../kit/venue/embedded_site'
import type { JsonVenue } from '../../kit/venue/json_venue'
import { isAtRest } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'

class MutedRpc {
  muted = false
  private readonly server: ReturnType<typeof Bun.serve>

  constructor(chain_url: string) {
    this.server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        const body = await request.text()
        if (this.muted && body.includes('"sendTransaction"')) return new Response('', { status: 503 })
        return fetch(chain_url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}`
  }

  async stop(): Promise<void> {
    await this.server.stop(true)
  }
}

let world: EmbeddedTrading
beforeEach(async () => {
  world = new EmbeddedTrading()
  await world.open()
}, 120_000)
afterEach(() => world.site.remove())

const PARTS = ['journal', 'snapshots', 'history', 'facts', 'trees']

/** A copy of the venue's present folder under another name. */
function copyTo(name: string, from = world.site.dir): string {
  const to = join(world.site.dir, name)
  for (const part of PARTS) cpSync(join(from, part), join(to, part), { recursive: true, filter: isAtRest })
  return to
}
function putBack(copy: string): void {
  for (const part of PARTS) rmSync(join(world.site.dir, part), { recursive: true })
  copyTo('.', copy)
}
async function stop(venue: JsonVenue = world.site.venue): Promise<void> {
  await venue.drain()
  await venue.close()
}
async function stopped(venue: JsonVenue, because: string): Promise<void> {
  while (venue.status().matching !== 'stopped') await soon()
  expect(venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  expect(venue.status().reasons.join()).toContain(because)
}
/** A busy machine looks like a stalled chain at first; nothing else may keep a venue from trading. */
async function trading(venue: JsonVenue): Promise<void> {
  while (venue.status().reasons.some((reason) => reason.startsWith('reopening'))) await Bun.sleep(2)
  expect(venue.status()).toMatchObject({ ready: true })
}
/** The vault's liabilities equal its balance, by mint. */
async function solvent(): Promise<void> {
  for (const { balance, liabilities } of await world.site.port.readMints()) expect(balance).toBe(liabilities)
}

/** A commit that was sent before the endpoint fell silent has landed, and is on disk as decided. */
async function untilNoCommitLands(): Promise<void> {
  const { machine } = world.site.chain
  const { tip } = machine
  while (machine.tip < tip + 5) await soon()
}

test('a folder older than the last anchor refuses to trade; the newest one put back goes on', async () => {
  const { site, alice } = world
  await stop()
  const old = copyTo('old')
  await site.openVenue()
  const { order_id } = await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  await stop()
  const newest = copyTo('newest')
  putBack(old)
  const venue = await site.openVenue()
  await stopped(venue, 'ahead of this journal')
  const refused = await refusalOf(venue.cancel('alice', order_id, alice.cancel(order_id)))
  expect(refused.code).toBe('matching_unavailable')
  expect((await site.port.readConfig()).epoch).toBe(2)
  await venue.close()
  putBack(newest)
  await site.openVenue()
  await trading(site.venue)
  expect(await site.venue.order('alice', order_id)).toMatchObject({ status: 'filled' })
  await solvent()
}, 120_000)

test('while no commit lands an older folder trades, and a receipt proves the loss', async () => {
  const { site } = world
  await stop()
  const rpc = new MutedRpc(site.chain.url)
  site.rpc_urls = [rpc.url]
  await site.openVenue()
  rpc.muted = true
  await untilNoCommitLands()
  const old = copyTo('old')
  const { order_id, receipt } = await world.cross()
  await site.venue.close()
  site.rpc_urls = undefined
  putBack(old)
  await site.openVenue()
  await trading(site.venue)
  expect((await refusalOf(site.venue.order('alice', order_id))).code).toBe('order_unknown')
  const { epoch, seq } = receipt
  const [venue, head, root] = [site.venue.identity().venue, receipt.head, receipt.root].map(
    (hex) => fromHex(hex, 32)!,
  )
  const body = RECEIPT_BODY.encode({
    venue: venue!,
    epoch: BigInt(epoch),
    seq: BigInt(seq),
    head: head!,
    root: root!,
  })
  expect(verifySignature(fromHex(receipt.signature, 64)!, body, site.keys.statement_key)).toBe(true)
  // By the chain this epoch ended before the position of the receipt.
  const { journal_seq, epoch: now } = await site.port.readConfig()
  expect(now).toBe(epoch + 1)
  expect(journal_seq).toBeLessThan(seq)
  await solvent()
  await rpc.stop()
}, 120_000)

test('a clone of a journal that the venue has left behind cannot open an epoch', async () => {
  const { site } = world
  const copy = copyTo('clone')
  const { venue: running, port } = site
  await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  const clone = await site.openVenue(copy)
  await stopped(clone, 'ahead of this journal')
  await clone.close()
  expect((await port.readConfig()).epoch).toBe(1)
  expect(running.status()).toMatchObject({ ready: true, matching: 'running' })
  site.venue = running
}, 120_000)

test('a clone that opens the next epoch fences the venue it was copied from, and neither loses funds', async () => {
  const { site } = world
  await stop()
  const rpc = new MutedRpc(site.chain.url)
  site.rpc_urls = [rpc.url]
  await site.openVenue()
  rpc.muted = true
  await untilNoCommitLands()
  site.rpc_urls = undefined
  const copy = copyTo('clone')
  const running = site.venue
  const before = site.port
  const clone = await site.openVenue(copy)
  expect(clone.identity().epoch).toBe(3)
  await stopped(running, 'another instance')
  expect((await before.readConfig()).epoch).toBe(3)
  const { order_id } = await world.cross(clone)
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  expect(await clone.order('alice', order_id)).toMatchObject({ status: 'filled' })
  // The one that was copied comes back once the clone's position is ahead of its journal, as a commit at each close makes it.
  await running.close()
  const journal = await openJournal({ dir: join(site.dir, 'journal'), key: site.keys.journal_key })
  const { seq } = journal.head()
  await journal.close()
  while ((await site.port.readConfig()).journal_seq <= seq) await soon()
  const again = await site.openVenue()
  await stopped(again, 'ahead of this journal')
  await solvent()
  await clone.close()
  await rpc.stop()
}, 120_000)
