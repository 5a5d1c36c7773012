/**
 * Measures the cost of one auction for the event loop: `bun bench/auction_turn.ts [--fills N] [--rounds N]`. Orders of
 * eight accounts that all cross meet in one auction. Separate figures: the state transition, the journal record, and the
 * event texts with their entries in the read models, which follow once the record is durable.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withTexts } from '../engine/history/event_text'
import { openHistory } from '../engine/history/open_history'
import { encodeCommand } from '../engine/machine/codec/command_codec'
import { auctionRecord } from '../engine/sequencer/records'
import { type Figure, median, numbers, random, report } from './kit/figures'
import { LOT, TICK, World } from './kit/machine_world'
import { ACCOUNTS, named } from './venue/bench_config'

const { fills, rounds } = numbers({ fills: 1_000, rounds: 60 })
const WARM_UP = 20
const KEYS = 512
const CENTER = 1_000

const keys = Array.from({ length: KEYS }, (_, at) => named(`key ${at}`))
const world = new World({ settlement_parts_max: 28 })
for (let at = 0; at < ACCOUNTS; at++) {
  world.account(`bench-${at}`, { orders_live_max: 1_000_000, keys_max: KEYS })
}
const next = random(11)

/** Buys of even accounts, sells of odd ones: each order crosses all of the other side. */
function restOrders(): void {
  for (let at = 0; at < fills; at++) {
    const key = at % KEYS
    const away = next() % 100
    world.place(`bench-${key % ACCOUNTS}`, keys[key]!, {
      side: key % 2 === 0 ? 'buy' : 'sell',
      amount: LOT * BigInt(1 + (next() % 1_000)),
      price_limit: TICK * BigInt(key % 2 === 0 ? CENTER + away : CENTER - away),
    })
  }
}

const dir = mkdtempSync(join(tmpdir(), 'tacit-bench-turn-'))
const history = await openHistory({ dir, key: named('history'), retention_days: 30 })
/** Milliseconds and number of fills of each measured round. */
const taken = { state: [] as number[], record: [] as number[], reads: [] as number[], all: [] as number[] }
const fills_of_round: number[] = []
let seq = 1

for (let round = 0; round < WARM_UP + rounds; round++) {
  restOrders()
  const before = world.state.settlement.unlanded
  await history.flush()
  const started = Bun.nanoseconds()
  const { events, auctions } = world.close()
  const applied = Bun.nanoseconds()
  const command = encodeCommand({ kind: 'slot', slot: world.state.slot, unix_ms: world.unix_ms })
  const records = [command, ...auctions.map((auction) => auctionRecord(auction, world.unix_ms).body)]
  const recorded = Bun.nanoseconds()
  history.record(seq, withTexts(events))
  const ended = Bun.nanoseconds()
  if (round >= WARM_UP) {
    taken.state.push((applied - started) / 1e6)
    taken.record.push((recorded - applied) / 1e6)
    taken.reads.push((ended - recorded) / 1e6)
    taken.all.push((ended - started) / 1e6)
    fills_of_round.push(world.state.settlement.unlanded - before)
  }
  seq += records.length
  world.hashAll()
  world.landAll()
  world.journal.length = world.events.length = world.auctions.length = 0
}
await history.close()
rmSync(dir, { recursive: true })

const fills_each = `${median(fills_of_round)} fills`
const figure = (name: string, values: number[]): Figure => {
  const beside = `${fills_each}, best ${Math.min(...values).toPrecision(3)}`
  return { figure: `auction turn, ${name}`, value: median(values), unit: 'ms', beside }
}
report('auction_turn', [
  figure('state', taken.state),
  figure('journal record', taken.record),
  figure('read models', taken.reads),
  figure('all', taken.all),
])
