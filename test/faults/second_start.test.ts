/** Starts, stops and kills under load of the real process: the book is kept, and a changed journal is rejected plainly. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { createHash, randomInt } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { followEvents } from '../../client/api/event_stream'
import { openChainAccess } from '../../client/chain/chain_access'
import { tokenBalance } from '../../client/chain/read_vault'
import { prepareCancel } from '../../client/wallet/prepare'
import {
  decodeFrameHeader,
  encodeFrameHeader,
  type FrameHeader,
  frameBytes,
} from '../../engine/journal/frame'
import { SECTOR_BYTES } from '../../engine/journal/segment_header'
import { decodeBase58 } from '../../protocol/base58'
import type { AccountEvent, Fill, Order, PlaceResult } from '../../protocol/wire/trading'
import { SOL } from '../../sandbox/environment'
import { SIGNAL_ECHO_MS } from '../../server/limits'
import {
  type CrashSite,
  checkShown,
  crashRound,
  notesPerMint,
  openCrashSite,
  readEvents,
  tradeUntilFilled,
} from './kit/crash_rounds'
import { type LoadTrader, windDown } from './kit/load_trader'
import { DEPOSITED, openFrameSocket, openTrader, restOrder } from './kit/open_trader'
import { VenueProcess, venueTransport } from './kit/venue_process'

// A start takes seconds on a busy machine.
setDefaultTimeout(180_000)

describe('starts and stops', () => {
  const venue = new VenueProcess()
  const other = new VenueProcess()
  let trader: LoadTrader
  let resting: Order

  beforeAll(async () => {
    await venue.start()
    trader = await openTrader(venue, 'ada', { keys: 1, notes: 2, mints: [SOL] })
    const { order_id } = (await restOrder(trader)).result
    resting = await trader.client.order(order_id)
  }, 180_000)
  afterAll(async () => {
    trader?.close()
    await venue.remove()
    await other.remove()
  })

  /** Output of a start that must not serve. */
  async function refusal(process: VenueProcess, settings: Record<string, string>): Promise<string> {
    expect(await process.launch(settings)).toBe(false)
    expect(await process.ended()).not.toBe(0)
    return process.output
  }
  async function expectSameBook(): Promise<void> {
    await trader.connect()
    const { items } = await trader.client.orders({ status: 'open' })
    expect(items).toEqual([resting])
  }

  test('a second process on the same data folder is refused, and the first serves on undisturbed', async () => {
    const second = new VenueProcess()
    const said = await refusal(second, { TACIT_DATA_DIR: venue.data_dir })
    expect(said).toMatch(/another (process|stand-in agent)/)
    await second.remove()

    expect(existsSync(join(venue.data_dir, 'laptop.json'))).toBe(true)
    const quote = await venueTransport(venue).fetch(`/attestation?reportData=${'ab'.repeat(32)}`)
    expect(quote.status).toBe(200)
    const { slot } = await trader.client.time()
    while ((await trader.client.time()).slot < slot + 3) await Bun.sleep(20)
    const { order_id } = (await restOrder(trader)).result
    const cancelled = await trader.client.cancel(
      order_id,
      prepareCancel(trader.wallet, trader.venue, order_id, 0),
    )
    expect(cancelled.status).toBe('cancelled')
  })

  test.each(['TACIT_LISTEN', 'TACIT_OPERATOR_LISTEN'])(
    'a port that a stranger holds is refused: %s',
    async (name) => {
      const stranger = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
      const said = await refusal(other, { [name]: `127.0.0.1:${stranger.port}` })
      expect(said).toContain(`${stranger.port}`)
      expect(said).toMatch(/in use/)
      stranger.stop(true)
    },
  )

  test('a port that another venue holds is refused: no two venues share the callers', async () => {
    const { port } = new URL(venue.facts.url)
    const said = await refusal(other, { TACIT_LISTEN: `127.0.0.1:${port}` })
    expect(said).toMatch(/in use/)
  })

  test('an unknown setting is refused by its name, with every other fault at once', async () => {
    const said = await refusal(other, { TACIT_LISTN: '127.0.0.1:1', TACIT_SLOT_MS: 'fast' })
    expect(said).toContain('TACIT_LISTN: no such setting')
    expect(said).toContain('TACIT_SLOT_MS: expected an integer')
  })

  test('Ctrl-C drains, also where a runner passes it on, too: sockets are asked to come back, exit code 0', async () => {
    const socket = await openFrameSocket(trader.client, '/ws/orders')
    venue.signal('SIGINT')
    await venue.printed('"event":"draining"', 0)
    venue.signal('SIGINT')
    expect(await venue.ended()).toBe(0)
    expect(await socket.closed).toBe(1012)
    expect(venue.output).toContain('"event":"stopped"')
  })

  test('a SIGTERM to the whole process group, which a runner passes on too, drains as one', async () => {
    const printed = venue.output.length
    await venue.start()
    venue.signal('SIGTERM')
    venue.signal('SIGTERM')
    expect(await venue.ended()).toBe(0)
    expect(venue.output.slice(printed)).toContain('"event":"stopped"')
  })

  test('a second start on the same data serves the same book', async () => {
    await venue.start()
    await expectSameBook()
  })

  test('a client that was connected goes on by itself: new token, next event', async () => {
    const seqs: number[] = []
    const followed = Promise.withResolvers<void>()
    const stream = followEvents(trader.client, trader.trading.seq, {
      event({ seq }) {
        seqs.push(seq)
        if (seqs.length === 2) followed.resolve()
      },
    })
    const { order_id, seq } = (await restOrder(trader)).result
    await venue.kill()
    await venue.start()
    await trader.client.cancel(order_id, prepareCancel(trader.wallet, trader.venue, order_id, 0))
    await followed.promise
    stream.close()
    // More than two where the kill met a closed batch: it is decided first, and the cancel may wait for the next one.
    expect(seqs.length).toBeGreaterThanOrEqual(2)
    expect(seqs).toEqual(seqs.map((_, at) => seq + at))
  })

  test('a later second SIGTERM ends it at once, and the next start still serves the same book', async () => {
    await venue.stop()
    // The drain waits for the chain: slow slots leave time for a second signal.
    expect(await venue.launch({ TACIT_SLOT_MS: '400' })).toBe(true)
    const printed = venue.output.length
    venue.signal('SIGTERM')
    await venue.printed('"event":"draining"', printed)
    await Bun.sleep(SIGNAL_ECHO_MS)
    venue.signal('SIGTERM')
    expect(await venue.ended()).toBe(1)
    expect(venue.output.slice(printed)).not.toContain('"event":"stopped"')
    await venue.start()
    await expectSameBook()
    expect(await venue.stop()).toBe(0)
  })
})

describe('a damaged journal', () => {
  const venue = new VenueProcess()
  let trader: LoadTrader
  let placed: PlaceResult
  let events: AccountEvent[]

  beforeAll(async () => {
    await venue.start()
    trader = await openTrader(venue, 'ada', { keys: 1, notes: 1, mints: [SOL] })
    placed = (await restOrder(trader)).result
    events = await readEvents(trader.client)
    await venue.kill()
  }, 180_000)
  afterAll(async () => {
    trader?.close()
    await venue.remove()
  })

  /** The start is rejected, names the seq, and changes no byte of journal or snapshots. */
  async function expectRefused(frame: PlacedFrame): Promise<void> {
    const before = fingerprint(venue.data_dir)
    const printed = venue.output.length
    expect(await venue.launch()).toBe(false)
    expect(await venue.ended()).not.toBe(0)
    const said = venue.output.slice(printed)
    expect(said).toContain(`journal damaged at seq ${frame.header.seq_first}`)
    expect(fingerprint(venue.data_dir)).toEqual(before)
  }
  /** Flips the byte, sees the refusal, and flips it back. */
  async function damage(frame: PlacedFrame, offset: number): Promise<void> {
    flipByte(frame.path, offset)
    await expectRefused(frame)
    flipByte(frame.path, offset)
  }
  async function expectNothingLost(): Promise<void> {
    await venue.start()
    await trader.connect()
    const order = await trader.client.order(placed.order_id)
    expect([order.status, order.seq]).toEqual(['accepted', placed.seq])
    expect(checkShown(await readEvents(trader.client), events)).toEqual([])
  }

  test('one changed byte in an acknowledged record: the start refuses, names the seq, exits not with 0', async () => {
    const frame = frameOf(venue.data_dir, placed.receipt.seq)
    await damage(frame, Math.floor((frame.offset + frame.end) / 2))
  })

  test('one changed byte in the header of its group: the same', async () => {
    const frame = frameOf(venue.data_dir, placed.receipt.seq)
    await damage(frame, frame.offset + 20)
  })

  test('with the byte restored it starts with nothing lost', async () => {
    await expectNothingLost()
    await venue.kill()
  })

  test('damage in an earlier file that is still replayed: the same', async () => {
    const frame = frameOf(venue.data_dir, placed.receipt.seq)
    expect(segmentPaths(venue.data_dir).indexOf(frame.path)).toBe(0)
    expect(segmentPaths(venue.data_dir).length).toBeGreaterThan(1)
    await damage(frame, Math.floor((frame.offset + frame.end) / 2))
  })

  test('a torn last write starts, and nothing acknowledged is lost', async () => {
    const path = segmentPaths(venue.data_dir).at(-1)!
    const last = framesOf(path).at(-1)!
    const bytes = readFileSync(path)
    const { frame, seq_first, records } = last.header
    const header = {
      ...last.header,
      frame: frame + 1,
      seq_first: seq_first + records,
      plain_bytes: 3 * SECTOR_BYTES,
    }
    // Its first sector reached the disk, the others did not.
    crypto.getRandomValues(bytes.subarray(last.end, last.end + SECTOR_BYTES))
    encodeFrameHeader(bytes.subarray(last.end), header)
    writeFileSync(path, bytes)
    expect(framesOf(path).at(-1)!.header).toEqual(header)
    await expectNothingLost()
    expect(await venue.stop()).toBe(0)
  })
})

/**
 * The real process, killed with SIGKILL at random points while accounts place, cancel, modify and merge notes over HTTPS. Goal:
 * acknowledged commands are there, others are there wholly or not at all, and no money is lost or made.
 */

const ROUNDS = Number(process.env['TACIT_CRASH_ROUNDS'] ?? 3)
const ROUND_MS_MAX = 90_000
const seed = Number(process.env['TACIT_CRASH_SEED'] ?? randomInt(2 ** 31))

describe(`kill -9 under load (TACIT_CRASH_SEED=${seed}, ${ROUNDS} rounds)`, () => {
  let site: CrashSite
  beforeAll(async () => {
    site = await openCrashSite(seed)
  }, 180_000)
  afterAll(async () => {
    for (const trader of site?.traders ?? []) trader.close()
    await site?.venue.remove()
  })

  test(
    'acknowledged commands survive, lost ones are whole or absent, lists stay gapless, open orders stay the same',
    async () => {
      for (let round = 1; round <= ROUNDS; round++) expect(await crashRound(site, round)).toEqual([])
      const { lost, ends, venue } = site
      const sent = site.traders.flatMap((trader) => trader.sent)
      const fates = Object.groupBy(sent, ({ kind, fate }) => `${kind} ${fate}`)
      const counts = Object.entries(fates).map(([name, list]) => `${name} ${list!.length}`)
      console.log(`${counts.sort().join(', ')}; answers lost: ${lost.there} applied, ${lost.absent} not`)
      const left = site.traders.flatMap(({ streams }) => streams).reduce((sum, one) => sum + one.left, 0)
      console.log(`lives ended ${JSON.stringify(ends)}, ${left} times a socket left by itself`)
      const newest = (dir: string) => readdirSync(join(venue.data_dir, dir)).sort().at(-1)
      console.log(
        `newest segment ${basename(segmentPaths(venue.data_dir).at(-1)!)}, snapshot ${newest('snapshots')}`,
      )
      for (const kind of ['place', 'cancel', 'modify']) expect(counts.join()).toContain(`${kind} accepted`)
    },
    ROUNDS * ROUND_MS_MAX,
  )

  test('settlement goes on: every fill becomes final on chain', async () => {
    await tradeUntilFilled(site)
    await windDown(site.traders)
    for (const { trading } of site.traders) {
      const fills = trading.events.filter(({ kind }) => kind === 'fill.matched')
      expect(fills.length).toBeGreaterThan(0)
      const final = trading.events.filter(({ kind }) => kind === 'fill.finalized')
      const name = ({ data }: { data: unknown }) => `${(data as Fill).order_id} ${(data as Fill).fill_index}`
      expect(final.map(name).sort()).toEqual(fills.map(name).sort())
    }
  }, 180_000)

  test('notes conserve: what was deposited is in the notes and the fees, and in the vault on chain', async () => {
    const { mints } = await site.traders[0]!.client.transparency()
    const chain = await openChainAccess(site.venue.facts.rpc_url, new Uint8Array(32).fill(1))
    for (const [mint, amount] of DEPOSITED) {
      const notes = site.traders.reduce((sum, { wallet }) => sum + wallet.balance(mint), 0n)
      const fees = site.traders
        .flatMap(({ trading }) => trading.events)
        .filter(({ kind }) => kind === 'fill.matched')
        .filter(() => mint === site.traders[0]!.instrument.quote_mint)
        .reduce((sum, { data }) => sum + BigInt((data as Fill).fee), 0n)
      const deposited = amount * BigInt(notesPerMint)
      expect(notes + fees).toBe(deposited)
      const told = mints.find((one) => one.mint === mint)!
      expect(told.vault_balance).toBe(String(deposited))
      expect(await tokenBalance(chain, decodeBase58(told.vault, 32)!)).toBe(deposited)
    }
  })

  test('every stream, resumed over all restarts, ends as the gapless list of REST', async () => {
    for (const { client, streams } of site.traders) {
      const events = await readEvents(client)
      for (const follower of streams) {
        const { stream, faults, events: followed } = follower
        const kinds = { trading: '', orders: 'order.', fills: 'fill.' }[stream]
        const listed = events.filter(({ kind }) => kind.startsWith(kinds))
        await follower.until(`/ws/${stream} to tell all`, () => followed.length >= listed.length)
        expect(faults).toEqual([])
        const order = (list: AccountEvent[]) => list.map(({ seq, kind }) => `${seq} ${kind}`)
        expect(order(followed)).toEqual(order(listed))
        expect(followed).toEqual(listed)
        expect(followed.length).toBeGreaterThan(0)
      }
    }
  })
})

export type PlacedFrame = { path: string; offset: number; end: number; header: FrameHeader }

export function segmentPaths(data_dir: string): string[] {
  const dir = join(data_dir, 'journal')
  const names = readdirSync(dir).filter((name) => name.endsWith('.segment'))
  return names.sort().map((name) => join(dir, name))
}

/** Frame headers are readable without the key. */
export function framesOf(path: string): PlacedFrame[] {
  const bytes = new Uint8Array(readFileSync(path))
  const frames: PlacedFrame[] = []
  let offset = SECTOR_BYTES
  for (;;) {
    const header = decodeFrameHeader(bytes, offset)
    if (header === undefined) return frames
    const end = offset + frameBytes(header.plain_bytes)
    frames.push({ path, offset, end, header })
    offset = end
  }
}

/** The frame that holds the record of this journal seq. */
export function frameOf(data_dir: string, seq: number): PlacedFrame {
  const frames = segmentPaths(data_dir).flatMap(framesOf)
  const holds = ({ header }: PlacedFrame) =>
    header.seq_first <= seq && seq < header.seq_first + header.records
  const found = frames.find(holds)
  if (found === undefined) throw new Error(`no frame holds seq ${seq}`)
  return found
}

/** Flips every bit of one byte; done twice it changes nothing. */
export function flipByte(path: string, offset: number): void {
  const bytes = readFileSync(path)
  bytes[offset] = ~bytes[offset]! & 0xff
  writeFileSync(path, bytes)
}

/** Name, size and hash of every file of the journal and the snapshots; the lock is not one of them. */
export function fingerprint(data_dir: string): string[] {
  return ['journal', 'snapshots'].flatMap((folder) => {
    const names = readdirSync(join(data_dir, folder))
      .filter((name) => !name.startsWith('journal.lock'))
      .sort()
    return names.map((name) => {
      const bytes = readFileSync(join(data_dir, folder, name))
      return `${folder}/${name} ${bytes.length} ${createHash('sha256').update(bytes).digest('hex')}`
    })
  })
}
