/** Starts and stops as operators and hosts cause them: ordinary ones keep the book, a changed journal is rejected plainly. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { followEvents } from '../../client/api/event_stream'
import { prepareCancel } from '../../client/wallet/prepare'
import { encodeFrameHeader } from '../../engine/journal/frame'
import { SECTOR_BYTES } from '../../engine/journal/segment_header'
import type { AccountEvent, Order, PlaceResult } from '../../protocol/wire/trading'
import { SOL } from '../../sandbox/environment'
import { SIGNAL_ECHO_MS } from '../../server/limits'
import { checkShown, readEvents } from './kit/check_restart'
import { openFrameSocket } from './kit/frame_socket'
import { fingerprint, flipByte, frameOf, framesOf, type PlacedFrame, segmentPaths } from './kit/journal_files'
import type { LoadTrader } from './kit/load_trader'
import { openTrader, restOrder } from './kit/open_trader'
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

  /** What a start that must not serve prints. */
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

  test('Ctrl-C drains, also where a runner passes it on besides: sockets are told to come back, exit code 0', async () => {
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
