/**
 * Rounds of takeovers of whole venues over one log, under random faults: what was acknowledged is there once, in order and
 * with its events. TACIT_TAKEOVER_ROUNDS and TACIT_TAKEOVER_SEED make a longer campaign, or the same again.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { Refusal } from '../../protocol/refusals'
import { ETCD } from '../../sandbox/cluster/etcd_binary'
import { EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { CutLink } from '../kit/etcd/cut_link'
import { USDC } from '../kit/venue/embedded_site'
import { EmbeddedTrading } from '../kit/venue/embedded_trading'
import type { JsonVenue } from '../kit/venue/json_venue'
import type { Deposit } from '../kit/venue/trader'

const ROUNDS = Number(process.env['TACIT_TAKEOVER_ROUNDS'] ?? 2)
const SEED = Number(process.env['TACIT_TAKEOVER_SEED'] ?? Date.now() % 2 ** 31)
const LIMIT_MS = 180_000
const FAULTS = ['leader cut off', 'leader cut off, leading member killed', 'leader closed'] as const
type Fault = (typeof FAULTS)[number]

/** A venue with the links by which it reaches etcd. */
type Node = { number: number; links: CutLink[]; opened: Promise<JsonVenue> }

let etcd: EtcdCluster
let trading: EmbeddedTrading

async function openNode(number: number): Promise<Node> {
  const links: CutLink[] = []
  for (const endpoint of etcd.endpoints) links.push(await CutLink.open(endpoint))
  const cluster = { endpoints: links.map(({ url }) => url), tls: etcd.tls }
  const opened = trading.site.openVenue(join(trading.site.dir, `node-${number}`), { cluster })
  return { number, links, opened }
}

function order(venue: JsonVenue, money: Deposit) {
  return trading.alice.place(money, { expiry_slot: venue.time().slot + 5_000, price_limit: '90000000' })
}

/** The machine is busy: its chain may stall for a moment, or the lease be old. */
const PASSING: readonly string[] = ['reopening', 'lease_lost']

async function acknowledge(venue: JsonVenue, money: Deposit): Promise<void> {
  const placed = order(venue, money)
  for (;;) {
    try {
      await venue.place('alice', placed)
      acknowledged.push(placed.order_id)
      return
    } catch (error) {
      if (!(error instanceof Refusal) || !PASSING.includes(error.code)) throw error
      await Bun.sleep(5)
    }
  }
}

/** Orders by their acknowledgements. */
const acknowledged: string[] = []
const times: { fault: Fault; ms: number }[] = []

/** @param money for an order that is sent to the leader after the fault. @returns what heals the fault */
async function strike(
  fault: Fault,
  leader: Node,
  venue: JsonVenue,
  money: Deposit,
): Promise<() => Promise<void>> {
  if (fault === 'leader closed') {
    await venue.close()
    return async () => undefined
  }
  for (const link of leader.links) link.cut()
  const late = order(venue, money)
  const answered = venue.place('alice', late).then(
    () => acknowledged.push(late.order_id),
    () => undefined,
  )
  const member = fault.endsWith('killed') ? await etcd.leader() : undefined
  if (member !== undefined) await etcd.kill(member)
  return async () => {
    if (member !== undefined) etcd.restart(member)
    await etcd.untilWritable()
    const before = trading.site.fatal.length
    for (const link of leader.links) link.mend()
    await answered
    while (trading.site.fatal.length === before) await Bun.sleep(5)
    await venue.close()
  }
}

async function round(fault: Fault, leader: Node, next: Node): Promise<void> {
  const venue = await leader.opened
  const deposited = () => trading.deposited(trading.alice, USDC, 200_000_000n)
  const [money, late_money, next_money] = [await deposited(), await deposited(), await deposited()]
  await acknowledge(venue, money)
  const began_ms = performance.now()
  const heal = await strike(fault, leader, venue, late_money)
  const second = await next.opened
  trading.site.venue = second
  await acknowledge(second, next_money)
  times.push({ fault, ms: performance.now() - began_ms })
  await heal()
  for (const link of leader.links) link.close()
  const events = await trading.events('alice')
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, i) => i + 1))
  const accepted = events.flatMap(({ kind, data }) =>
    kind === 'order.accepted' ? [(data as { order_id: string }).order_id] : [],
  )
  expect(new Set(accepted).size).toBe(accepted.length)
  expect(accepted.filter((id) => acknowledged.includes(id))).toEqual(acknowledged)
}

describe.skipIf(ETCD === undefined)('a campaign of takeovers', () => {
  beforeAll(async () => {
    etcd = await EtcdCluster.start()
    trading = new EmbeddedTrading()
    await trading.site.openChain()
  }, LIMIT_MS)
  afterAll(async () => {
    await trading?.site.remove()
    await etcd?.stop()
  }, LIMIT_MS)

  test(
    'nothing acknowledged is lost or doubled, and events have no gap',
    async () => {
      let leader = await openNode(1)
      trading.site.venue = await leader.opened
      await trading.site.issue('alice')
      trading.alice = trading.trader('alice')
      let below = SEED % 2 ** 31
      for (let at = 0; at < ROUNDS; at++) {
        below = (Math.imul(below, 1_103_515_245) + 12_345) >>> 1
        const fault = FAULTS[below % FAULTS.length]!
        const next = await openNode(1 + (leader.number % 3))
        // The next node follows before the fault.
        await Bun.sleep(200)
        await round(fault, leader, next).catch((cause) => {
          throw new Error(`round ${at + 1} of seed ${SEED}: ${fault}`, { cause })
        })
        leader = next
      }
      for (const fault of FAULTS) {
        const own = times.filter((one) => one.fault === fault).map(({ ms }) => Math.round(ms))
        own.sort((a, b) => a - b)
        const at = (share: number) => own[Math.min(own.length - 1, Math.floor(share * own.length))]
        console.log(`${fault}: ${own.length}, p50 ${at(0.5)} ms, p95 ${at(0.95)} ms, worst ${own.at(-1)} ms`)
      }
      console.log(`seed ${SEED}: ${ROUNDS} rounds, ${acknowledged.length} acknowledged, 0 lost or doubled`)
      expect(acknowledged.length).toBeGreaterThanOrEqual(2 * ROUNDS)
      const last = await leader.opened
      await last.close()
    },
    LIMIT_MS + ROUNDS * 30_000,
  )
})
