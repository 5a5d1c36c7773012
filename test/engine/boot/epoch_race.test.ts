/** A start right after a kill: the epoch the dead process sent may still land. Chain and journal decide whose it was. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import { LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { EmbeddedSite, soon } from '../../kit/venue/embedded_site'
import type { JsonVenue } from '../../kit/venue/json_venue'

let site: EmbeddedSite
let endpoint: LyingEndpoint
const open: JsonVenue[] = []
beforeEach(async () => {
  site = new EmbeddedSite()
  await site.openChain()
  endpoint = new LyingEndpoint(site.chain.url)
  site.rpc_urls = [endpoint.url]
})
afterEach(async () => {
  for (const venue of open.splice(0)) await venue.close()
  await endpoint.stop()
  await site.chain.close()
})

const waitFor = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await soon()
}
const land = (wire: Uint8Array): void => {
  site.chain.machine.enqueue(decodeTransaction(wire))
  site.chain.advance(1)
}
/** Settlement key, epoch authority and fee payer sign it; the registration of the platform before it has one signer. */
const isOpening = (wire: Uint8Array): boolean =>
  decodeTransaction(wire).message.header.numSignerAccounts === 3
const copyOf = (dir: string, name: string): string => {
  const copy = join(site.dir, name)
  const filter = (path: string) => !/journal\.lock|spare|\/chain/.test(path)
  cpSync(dir, copy, { recursive: true, filter })
  return copy
}

/**
 * A venue that dies with its epoch signed, journaled and sent, and not landed: its folder and the bytes it sent. Slots do not
 * move.
 */
async function diesSending(dir: string, name: string): Promise<{ folder: string; wire: Uint8Array }> {
  const sent = Promise.withResolvers<Uint8Array>()
  endpoint.lies = {
    sendTransaction(_, { params }) {
      const bytes = new Uint8Array(Buffer.from(params[0] as string, 'base64'))
      if (!isOpening(bytes)) return undefined
      // Its bytes stay good for the blocks to come.
      site.chain.stall(true)
      sent.resolve(bytes)
      return 'on its way'
    },
  }
  const dying = site.openVenue(dir).then(
    () => 'served',
    () => 'died',
  )
  const wire = await sent.promise
  const folder = copyOf(dir, name)
  await site.port.close()
  expect(await dying).toBe('died')
  endpoint.lies = {}
  return { folder, wire }
}

/** Opens the venue of `folder` while nothing becomes final, until it has asked the chain about its own epoch. */
async function openBeforeFinality(folder: string): Promise<JsonVenue> {
  const asked = Promise.withResolvers<void>()
  endpoint.lies = { sendTransaction: () => asked.resolve() }
  const opening = site.openVenue(folder)
  await asked.promise
  site.chain.stall(false)
  return opening
}

test("the dead process's epoch is confirmed and not final: the next start waits for it and takes the one after", async () => {
  const { folder, wire } = await diesSending(join(site.dir, 'first'), 'killed')
  land(wire)
  site.chain.advance(2)
  const venue = await openBeforeFinality(folder)
  open.push(venue)
  expect(venue.identity().epoch).toBe(2)
  expect(venue.status()).toMatchObject({ ready: true, matching: 'running' })
}, 120_000)

test("the dead process's epoch lands between the next one's signature and its landing: the same", async () => {
  const { folder, wire } = await diesSending(join(site.dir, 'first'), 'killed')
  let late: Uint8Array | undefined = wire
  endpoint.lies = {
    sendTransaction() {
      if (late !== undefined) land(late)
      late = undefined
      site.chain.stall(false)
      return undefined
    },
  }
  const venue = await site.openVenue(folder)
  open.push(venue)
  expect(venue.identity().epoch).toBe(2)
  expect(venue.status()).toMatchObject({ ready: true })
}, 120_000)

test("the dead process's epoch never lands: the next start takes it", async () => {
  const { folder } = await diesSending(join(site.dir, 'first'), 'killed')
  site.chain.stall(false)
  const venue = await site.openVenue(folder)
  open.push(venue)
  expect(venue.identity().epoch).toBe(1)
}, 120_000)

test('an epoch that the journal never intended is waited for too, and then means forked', async () => {
  const first = await site.openVenue(join(site.dir, 'first'))
  await first.drain()
  await first.close()
  const clone = copyOf(join(site.dir, 'first'), 'clone')
  const { wire } = await diesSending(join(site.dir, 'first'), 'other')
  land(wire)
  site.chain.advance(2)
  const venue = await openBeforeFinality(clone)
  open.push(venue)
  await waitFor(() => venue.status().matching === 'stopped')
  expect(venue.status().reasons.join()).toMatch(/another instance|ahead of this journal/)
}, 120_000)

test('a position that lands while the epoch is sent shows that the journal is not the newest', async () => {
  await site.openVenue(join(site.dir, 'first'))
  const { port, venue: first } = site
  open.push(first)
  const clone = copyOf(join(site.dir, 'first'), 'clone')
  let anchored = false
  endpoint.lies = {
    async sendTransaction() {
      if (anchored) return undefined
      anchored = true
      await port.anchor(1_000, { seq: 1_000, head: new Uint8Array(32).fill(1) })
      return undefined
    },
  }
  const venue = await site.openVenue(clone)
  open.push(venue)
  expect(venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  expect(venue.status().reasons.join()).toContain('rolled_back')
}, 180_000)
