/**
 * A venue finds its journal changed between two starts. Goal: damage to what was acknowledged stops the start with the
 * seq in doubt and leaves the evidence untouched; an unfinished last write is no damage.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { encodeFrameHeader } from '../../engine/journal/frame'
import { SECTOR_BYTES } from '../../engine/journal/segment_header'
import type { AccountEvent, PlaceResult } from '../../protocol/wire/trading'
import { checkShown, readEvents } from './kit/check_restart'
import { fingerprint, flipByte, frameOf, framesOf, type PlacedFrame, segmentPaths } from './kit/journal_files'
import type { LoadTrader } from './kit/load_trader'
import { openTrader, restOrder, SOL } from './kit/open_trader'
import { VenueProcess } from './kit/venue_process'

// A start takes seconds on a busy machine.
setDefaultTimeout(180_000)

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
