/** Cuts an account's events into blocks, and opens and caches stored blocks. */

import type { Database } from 'bun:sqlite'
import { LIMITS } from '../limits'
import { LruTexts } from '../memory/texts'
import type { EventText } from './contract'
import type { LoggedBatch } from './event_log'
import { blockRow, type Unsealer } from './seal'

const NEW_LINE = 10

/** The unit in which events are encrypted and deleted; `unix_ms` is the time of the last event. */
type NewBlock = { seq_first: number; seq_last: number; unix_ms: number; text: Uint8Array }

/** `events` of one account, in seq order without a gap. */
export function* cutBlocks(batch: LoggedBatch, events: readonly number[]): Generator<NewBlock> {
  let from = 0
  let bytes = 0
  for (let at = 0; at < events.length; at++) {
    const event = events[at]!
    const count = at - from
    const late = batch.unixMs(event) - batch.unixMs(events[from]!) > LIMITS.history_block_span_max_ms
    bytes += batch.bytes(event)
    if (
      count > 0 &&
      (count === LIMITS.history_block_events_max || late || bytes > LIMITS.history_block_bytes_max)
    ) {
      yield blockOf(batch, events.slice(from, at))
      from = at
      bytes = batch.bytes(event)
    }
  }
  if (from < events.length) yield blockOf(batch, events.slice(from))
}

/** White space behind the lines: the host reads the length of a block, and `buy` is shorter than `sell`. */
function blockOf(batch: LoggedBatch, events: readonly number[]): NewBlock {
  const { history_event_bytes: step } = LIMITS
  const bytes = events.reduce((sum, event) => sum + batch.bytes(event) + 1, -1)
  const text = Buffer.allocUnsafe(Math.max(events.length, Math.ceil(bytes / step)) * step)
  let at = 0
  for (const event of events) {
    if (at > 0) at = text.writeUInt8(NEW_LINE, at)
    at += batch.copyText(event, text, at)
  }
  text.fill(' ', at)
  const last = events.at(-1)!
  return { seq_first: batch.seq(events[0]!), seq_last: batch.seq(last), unix_ms: batch.unixMs(last), text }
}

/** An account by its id and its number in the database. */
export type Owner = { account_id: string; account: number }
type Place = { rowid: number; seq_first: number; seq_last: number }
type Block = { seq_first: number; texts: readonly string[] }

/** Opens blocks and caches the most recently used, so that a page of neighbouring events opens each block once. */
export class BlockReader {
  private readonly db: Database
  private readonly unsealer: Unsealer
  /** By account id and first seq, which identify a block permanently. */
  private readonly opened = new LruTexts<Block>(LIMITS.history_blocks_characters_max)

  /** Successive reads mostly hit the same block. */
  private last: { account_id: string; block: Block } = { account_id: '', block: { seq_first: 0, texts: [] } }

  constructor(db: Database, unsealer: Unsealer) {
    this.db = db
    this.unsealer = unsealer
  }

  /** The text of one event that a row points at. @throws Error when the event is missing */
  at(owner: Owner, seq: number): string {
    const { account_id, block } = this.last
    const near = account_id === owner.account_id ? block.texts[seq - block.seq_first] : undefined
    if (near !== undefined) return near
    const place = this.db
      .query<Place, [number, number]>(
        'SELECT rowid, seq_first, seq_last FROM blocks WHERE account = ? AND seq_last >= ? ORDER BY seq_last LIMIT 1',
      )
      .get(owner.account, seq)
    const text = place === null ? undefined : this.open(owner, place).texts[seq - place.seq_first]
    if (text === undefined) throw new Error('a row points at an event that is not there')
    return text
  }

  /** Events with after < seq < before. */
  between(owner: Owner, after: number, before: number, limit: number): EventText[] {
    const places = this.db
      .query<Place, [number, number, number]>(
        'SELECT rowid, seq_first, seq_last FROM blocks WHERE account = ? AND seq_last > ? AND seq_first < ? ORDER BY seq_last',
      )
      .iterate(owner.account, after, before)
    const found: EventText[] = []
    for (const place of places) {
      const { seq_first, texts } = this.open(owner, place)
      const end = Math.min(seq_first + texts.length, before)
      for (let seq = Math.max(seq_first, after + 1); seq < end && found.length < limit; seq++) {
        found.push({ seq, text: texts[seq - seq_first]! })
      }
      if (found.length >= limit) break
    }
    return found
  }

  private open({ account_id }: Owner, { rowid, seq_first, seq_last }: Place): Block {
    const name = blockRow(account_id, seq_first)
    const block = this.opened.get(name) ?? this.unseal(name, { rowid, seq_first, seq_last })
    this.last = { account_id, block }
    return block
  }

  private unseal(name: string, { rowid, seq_first, seq_last }: Place): Block {
    const row = this.db
      .query<{ sealed: Uint8Array }, [number]>('SELECT sealed FROM blocks WHERE rowid = ?')
      .get(rowid)
    if (row === null) throw new Error('a block is missing')
    const text = this.unsealer.unseal(name, row.sealed)
    const block = { seq_first, texts: text.trimEnd().split('\n') }
    if (block.texts.length !== seq_last - seq_first + 1) throw new Error('a block has other events')
    this.opened.set(name, block, text.length)
    return block
  }
}
