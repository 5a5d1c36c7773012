/**
 * Measures the cost of one auction for the event loop: `bun bench/auction_turn.ts [--fills N] [--rounds N]`. Orders of
 * eight accounts that all cross meet in one auction. Separate figures: the state transition, the journal record, and the
 * event texts with their entries in the read models, which follow once the record is durable.
 */

import type { Command, CommandBody } from '../engine/commands'
import { withTexts } from '../engine/history/event_text'
import { openHistory } from '../engine/history/open_history'
import { encodeCommand } from '../engine/machine/codec/command_codec'
import { dueInstruments } from '../engine/machine/rules/decide_batch'
import { execute } from '../engine/machine/rules/execute'
import type { Outcome } from '../engine/machine/state/outcome'
import { createState, type State } from '../engine/machine/state/state'
import { auctionRecord } from '../engine/sequencer/replayer'
import { DEFAULT_LIMITS } from '../tools/account/call_operator'
import { type Figure, inFolder, median, numbers, random, report } from './kit/figures'
import {
  ACCOUNTS,
  benchConfig,
  elementNamed,
  LOT,
  named,
  ORDERS_OF_ACCOUNT,
  REFERENCE_TICKS,
  TICK,
} from './venue/bench_config'
import { firstOrder, publicKeys } from './venue/fund_notes'

const { fills, rounds } = numbers({ fills: 1_000, rounds: 60 })
const WARM_UP = 20
const SLOT = 1_000
const UNIX_MS = 1_700_000_000_000

function run(state: State, body: CommandBody): Extract<Outcome, { ok: true }> {
  const outcome = execute(state, { ...body, unix_ms: UNIX_MS } as Command, {})
  if (!outcome.ok) throw new Error(`refused: ${outcome.code}`)
  return outcome
}

/** Buys of even accounts, sells of odd ones: each order crosses all of the other side. */
function crossingOrders(): CommandBody[] {
  const keys = publicKeys(fills)
  const next = random(11)
  return Array.from({ length: fills }, (_, at) => {
    const order = firstOrder(at, keys[at % keys.length]!, elementNamed(`note ${at}`), SLOT, true)
    const away = order.side === 'buy' ? next() % 100 : -(next() % 100)
    const price_limit = TICK * BigInt(REFERENCE_TICKS + away)
    return { ...order, price_limit, amount: LOT * BigInt(1 + (next() % 1_000)) }
  })
}

/** A venue's state with these orders in its book. */
function restingState(orders: readonly CommandBody[]): State {
  const { instruments, mints, fee_key, fee_anchor, order_life_slots_max } = benchConfig('')
  const { settlement_parts_max, retention_days } = benchConfig('')
  const terms = { order_life_slots_max, settlement_parts_max, retention_days, generation: 0 }
  const state = createState([0x7ac17ac1, 0x5eed5eed])
  run(state, { kind: 'configure', settings: { instruments, mints, fee_key, fee_anchor, ...terms } })
  run(state, { kind: 'slot', reopens_slot: 0, slot: SLOT })
  for (let at = 0; at < ACCOUNTS; at++) {
    const limits = { ...DEFAULT_LIMITS, orders_live_max: ORDERS_OF_ACCOUNT }
    const terms = { version: 1, state: 'active', limits, signature: new Uint8Array(64) } as const
    const account_key = elementNamed(`account ${at}`)
    run(state, { kind: 'account_record', account_id: `bench-${at}`, account_key, ...terms })
  }
  const leaves = orders.map((_, at) => elementNamed(`note ${at}`))
  run(state, { kind: 'leaves', first_index: 0, leaves, slot: SLOT })
  for (const order of orders) run(state, order)
  return state
}

/** Milliseconds of each measured round. */
const taken = { state: [] as number[], record: [] as number[], reads: [] as number[], all: [] as number[] }
let filled = 0

const orders = crossingOrders()
for (let round = 0; round < WARM_UP + rounds; round++)
  await inFolder('auction-turn', async (dir) => {
    const history = await openHistory({ dir, key: named('history'), retention_days: 30 })
    const state = restingState(orders)
    run(state, { kind: 'slot', reopens_slot: 0, slot: SLOT + 2 })
    const due = dueInstruments(state).map((one) => ({ ...one, seed: named(`seed ${one.symbol}`) }))
    run(state, { kind: 'closed', seq: 1, capacity: benchConfig('').settlement_parts_max, due })
    const decided = {
      kind: 'decided',
      seq: 1,
      outcome: 'committed',
      slot: SLOT + 3,
      epoch: 0,
      commit_seq: 1,
    } as const
    const started = Bun.nanoseconds()
    const { events, auctions } = run(state, decided)
    const applied = Bun.nanoseconds()
    const command = encodeCommand({ ...decided, unix_ms: UNIX_MS })
    const records = [command, ...auctions.map((auction) => auctionRecord(auction, UNIX_MS).body)]
    const recorded = Bun.nanoseconds()
    history.record(records.length, withTexts(events))
    const ended = Bun.nanoseconds()
    filled = state.settlement.unlanded
    await history.close()
    if (round < WARM_UP) return
    taken.state.push((applied - started) / 1e6)
    taken.record.push((recorded - applied) / 1e6)
    taken.reads.push((ended - recorded) / 1e6)
    taken.all.push((ended - started) / 1e6)
  })

const figure = (name: string, values: number[]): Figure => {
  const beside = `${filled} fills, best ${Math.min(...values).toPrecision(3)}`
  return { figure: `auction turn, ${name}`, value: median(values), unit: 'ms', beside }
}
report('auction_turn', [
  figure('state', taken.state),
  figure('journal record', taken.record),
  figure('read models', taken.reads),
  figure('all', taken.all),
])
