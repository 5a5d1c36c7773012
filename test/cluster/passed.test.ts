/** The leading node executes the commands of another node, and rejects those verified before a token of the account ended. */
import { afterEach, expect, spyOn, test } from 'bun:test'
import type { Command, CommandBody } from '../../engine/commands'
import { intakePlace } from '../../engine/intake/requests'
import { LIMITS } from '../../engine/limits'
import { encodeCommand } from '../../engine/machine/codec/command_codec'
import { execute } from '../../engine/machine/rules/execute'
import { newAccount } from '../../engine/machine/state/account'
import { createState } from '../../engine/machine/state/state'
import { venueOf } from '../../engine/methods/venue_methods'
import { DisconnectGrace } from '../../engine/sequencer/disconnect_grace'
import type { Passed } from '../../engine/venue'
import { fromHex } from '../../protocol/bytes'
import { PlaceRequest, type PlaceResult } from '../../protocol/wire/trading'
import { parserOf } from '../../protocol/wire/values'
import { FIXED_HASH_SEED } from '../kit/venue/machine_world'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { refusalOf } from '../kit/venue/refusal_of'
import { accountId, testCredential } from '../kit/venue/test_login'
import { Trader } from '../kit/venue/trader'
import { socketOf } from './front_kit'

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

const parse = parserOf(PlaceRequest)

/** A place as a node that follows verifies it at `seq` and passes it on. */
function passedOf({ engine }: TestVenue, request: PlaceRequest, seq: number): Passed {
  const { command, body_and_signature: signed } = intakePlace(
    engine.intake,
    accountId('alice'),
    parse(request),
    'front.1',
  )
  const bytes = encodeCommand({ ...command(), unix_ms: 0 })
  return { kind: 'command', seq, access: 'trade', command: bytes, signed, answers: 'held' }
}

const isOpen = () => false
async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(10)
}

test('a command that was passed on is answered with its receipt, and its resend with the same', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const { engine } = open
  const passed = passedOf(open, request, engine.sequencer.seq_durable)
  const costs: string[] = []
  const { value, seq } = await open.venue.parsed.passed(
    passed,
    ({ kind }) => {
      costs.push(kind)
      return 1
    },
    isOpen,
  )
  const { receipt, ...placed } = value as PlaceResult
  expect(placed).toMatchObject({ order_id: request.order_id, status: 'accepted' })
  expect(receipt.epoch).toBe(engine.state.epoch)
  expect(seq).toBeGreaterThanOrEqual(receipt.seq)
  expect(costs).toEqual(['place'])
  const again = await refusalOf(open.venue.parsed.passed(passed, () => 0, isOpen))
  expect(again.code).toBe('order_exists')
  expect(again.facts.result).toMatchObject({ order_id: request.order_id, receipt })
})

test('a command that was verified before a token of its account ended is refused, however late it comes', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const [one, two] = [trader.deposit('quote', 200_000_000n), trader.deposit('quote', 200_000_000n)]
  await open.chain.finalizeLeaves()
  const { engine } = open
  const before = engine.sequencer.seq_durable
  const late = passedOf(open, trader.place(one), before)
  await engine.sequencer.submit({
    kind: 'token_ended',
    account_id: accountId('alice'),
    token_id: 'ab'.repeat(32),
  })
  expect(await refusalOf(open.venue.parsed.passed(late, () => 0, isOpen))).toMatchObject({
    code: 'lease_lost',
    applied: 'no',
  })
  expect(engine.state.orders.size).toBe(0)
  const timely = passedOf(open, trader.place(two), engine.sequencer.seq_durable)
  await open.venue.parsed.passed(timely, () => 0, isOpen)
  expect(engine.state.orders.size).toBe(1)
})

test('a new credential, and the end of a token, are answered once no other node answers by what was before', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'alice')
  const { engine, venue } = open
  const { sequencer } = engine
  let before: number = sequencer.seq_durable
  const awaited: number[] = []
  Object.assign(engine, { fronts: { applied: async (seq: number) => void awaited.push(seq) } })
  const id = fromHex(venue.identity().venue, 32)!
  await venue.setCredential(undefined, testCredential('alice', id, { version: 2 }).request)
  expect([awaited, awaited[0]! > before]).toEqual([[sequencer.seq_durable], true])
  before = sequencer.seq_durable
  const ended = { kind: 'token_ended', account_id: accountId('alice'), token_id: 'ab'.repeat(32) } as const
  const command = encodeCommand({ ...ended, unix_ms: 0 })
  await venue.parsed.passed({ kind: 'record', seq: before, access: 'trade', command }, () => 0, isOpen)
  expect([awaited[1], awaited[1]! > before]).toEqual([sequencer.seq_durable, true])
})

test('only the commands of clients are passed on', async () => {
  const open = await site.open()
  const command = encodeCommand({ kind: 'resumed', unix_ms: 0 })
  for (const kind of ['command', 'record'] as const) {
    const passed = {
      kind,
      seq: 1e9,
      access: 'trade',
      command,
      signed: new Uint8Array(0),
      answers: 'held',
    } as const
    expect(await refusalOf(open.venue.parsed.passed(passed, () => 0, isOpen))).toMatchObject({
      code: 'frame_invalid',
    })
  }
})

const NODE = '00112233445566aa.'
/** Arms a socket of another node, and places an order on it. */
async function armedAtFront(open: TestVenue, trader: Trader, origin: string): Promise<string> {
  const account_id = accountId('alice')
  const { venue, engine } = open
  const command = encodeCommand({ kind: 'arm_disconnect', account_id, origin, armed: true, unix_ms: 0 })
  const seq = engine.sequencer.seq_durable
  await venue.parsed.passed({ kind: 'record', seq, access: 'trade', command }, () => 0, isOpen)
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await venue.place('alice', request, origin)
  return request.order_id
}
const armedOf = ({ engine }: TestVenue) => [...engine.state.accounts.get(accountId('alice'))!.armed]

test('a planned stop disarms the sockets that it closes, and none of another node, whose clients do not know', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const order_id = await armedAtFront(open, trader, `${NODE}1`)
  await open.venue.armDisconnect('alice', 'own', true)
  expect(armedOf(open)).toEqual([`${NODE}1`, 'own'])
  await open.engine.grace.disarmOwn()
  expect(armedOf(open)).toEqual([`${NODE}1`])
  await open.venue.parsed.disconnected(accountId('alice'), `${NODE}1`)
  expect(await open.venue.order('alice', order_id)).toMatchObject({
    status: 'cancelled',
    reason: 'disconnect',
  })
})

test('a node that is back says which sockets are open: the others have closed, and it learns which are armed no more', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const closed = await armedAtFront(open, trader, `${NODE}closed`)
  const kept = await armedAtFront(open, trader, `${NODE}open`)
  const other = await armedAtFront(open, trader, 'ffeeddccbbaa9988.1')
  const { grace } = open.engine
  // As after a takeover, when the sockets of all other nodes may have closed.
  grace.begin()
  expect(await grace.nodeBack(NODE, new Set([`${NODE}open`, `${NODE}late`]))).toEqual([`${NODE}late`])
  const statusOf = async (order_id: string) => (await open.venue.order('alice', order_id)).status
  expect(await Promise.all([closed, kept, other].map(statusOf))).toEqual([
    'cancelled',
    'accepted',
    'accepted',
  ])
  await grace.fire('ffeeddccbbaa9988.')
  expect(await Promise.all([kept, other].map(statusOf))).toEqual(['accepted', 'cancelled'])
  expect(armedOf(open)).toEqual([`${NODE}open`])
})

test('of calls that arm and disarm a socket of the leading node in one go the last one counts', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'alice')
  const { venue } = open
  const all = (...calls: boolean[]) =>
    Promise.all(calls.map((armed) => venue.armDisconnect('alice', 'own', armed)))
  await all(true)
  await all(false, true)
  expect([armedOf(open), venue.parsed.isArmed('own')]).toEqual([['own'], true])
  await all(true, false)
  expect([armedOf(open), venue.parsed.isArmed('own')]).toEqual([[], false])
})

test('a leading node that learns late that it leads holds requests, and one that gives its term away asks to send them again', async () => {
  const open = await site.open()
  const { availability, sequencer } = open.engine
  await Trader.provisioned(open, 'alice')
  let right_ms = 0
  const venue = venueOf({ ...open.engine, node: { rightMs: () => right_ms } } as never)
  const done: string[] = []
  const command = encodeCommand({
    kind: 'disconnected',
    account_id: accountId('alice'),
    origin: 'x',
    unix_ms: 0,
  })
  const passed = { kind: 'record', seq: sequencer.seq_durable, access: 'trade', command } as const
  const arms = { kind: 'arm_disconnect', account_id: accountId('alice'), origin: 'x', armed: true } as const
  const arming = { ...passed, command: encodeCommand({ ...arms, unix_ms: 0 }) }
  const held = [
    venue.handedOver(undefined)!.then(() => done.push('asked here')),
    venue.passed(passed, () => 0, isOpen).then(() => done.push('passed on')),
  ]
  const left = refusalOf(
    venue.passed(
      arming,
      () => 0,
      () => true,
    ),
  )
  await Bun.sleep(100)
  expect(done).toEqual([])
  right_ms = 1_000
  const behind = venue.passed(passed, () => 0, isOpen).then(() => done.push('behind it'))
  await Promise.all([...held, behind])
  expect(done).toEqual(['asked here', 'passed on', 'behind it'])
  // Its node may count as lost since: an arming would last.
  expect((await left).code).toBe('outcome_unknown')
  expect([...open.engine.state.accounts.get(accountId('alice'))!.armed]).toEqual([])
  // Strangers take no waits of an account.
  const all = Array.from({ length: LIMITS.passed_account_max }, () => venue.handedOver('unknown')!)
  expect(venue.handedOver(undefined)).toBeUndefined()
  const own = venue.handedOver('alice')
  expect(own).toBeDefined()
  await Promise.all([...all, own])
  availability.hand(Promise.resolve())
  expect((await refusalOf(venue.handedOver(undefined)!)).code).toBe('outcome_unknown')
  availability.hand(undefined)
  availability.drain()
  expect(venue.handedOver(undefined)).toBeUndefined()
  expect(open.venue.parsed.handedOver(undefined)).toBeUndefined()
})

test('a leading node that learns late that it leads holds frames of its own sockets like those that other nodes pass on, and journals the end of one', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  let right_ms = 1_000
  const node = { rightMs: () => right_ms }
  const { connection, sent } = socketOf(venueOf({ ...open.engine, node } as never), 1, accountId('alice'))
  const arms = (id: string) =>
    connection.message(JSON.stringify({ id, op: 'cancel_on_disconnect', params: { armed: true } }))
  arms('1')
  await until(() => sent.length === 2)
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', request, connection.origin)
  right_ms = 0
  for (const id of ['2', '3']) arms(id)
  await Bun.sleep(100)
  expect(sent).toHaveLength(2)
  right_ms = 1_000
  await until(() => sent.length === 4)
  expect(sent.slice(1)).toEqual(
    ['1', '2', '3'].map((id) => `{"type":"reply","id":"${id}","result":{"armed":true}}`),
  )
  const { availability } = open.engine
  const barred = spyOn(availability, 'barred').mockReturnValue('lease_lost')
  connection.closed()
  await until(() => armedOf(open).length === 0)
  barred.mockRestore()
  await until(async () => (await open.venue.order('alice', request.order_id)).status === 'cancelled')
})

/** An account arms or disarms a socket of another node, or of the leading one. */
async function arm(open: TestVenue, origin: string, armed = true): Promise<void> {
  const account_id = accountId('alice')
  const command = encodeCommand({ kind: 'arm_disconnect', account_id, origin, armed, unix_ms: 0 })
  const seq = open.engine.sequencer.seq_durable
  await open.venue.parsed.passed({ kind: 'record', seq, access: 'trade', command }, () => 0, isOpen)
}

test('the sockets of a node that ends as planned are disarmed, also with used-up limits and ended tokens', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const order = await armedAtFront(open, trader, `${NODE}1`)
  await arm(open, 'ffeeddccbbaa9988.1')
  const { engine, venue } = open
  const account_id = accountId('alice')
  await engine.sequencer.submit({ kind: 'token_ended', account_id, token_id: 'ab'.repeat(32) })
  const costs: string[] = []
  await venue.parsed.passed({ kind: 'leaves', node: NODE }, ({ kind }) => costs.push(kind), isOpen)
  expect([costs, armedOf(open)]).toEqual([[], ['ffeeddccbbaa9988.1']])
  engine.grace.nodeLost(NODE, 0)
  await engine.grace.fire(NODE)
  expect((await venue.order('alice', order)).status).toBe('accepted')
})

test('no armed socket of an account disarms another one that is open: the 65th over all nodes is rejected, and those at absent nodes give way', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  await open.venue.armDisconnect('alice', 'own', true)
  const order = await armedAtFront(open, trader, `${NODE}0`)
  for (let count = 1; count < 63; count++) await arm(open, `${NODE}${count}`)
  const other = 'ffeeddccbbaa9988.1'
  expect(await refusalOf(arm(open, other))).toMatchObject({ code: 'connection_limit', applied: 'no' })
  await arm(open, `${NODE}62`)
  expect([armedOf(open).length, armedOf(open)[0]]).toEqual([64, 'own'])
  open.engine.grace.nodeLost(NODE, open.engine.clock.monotonicMs() + 1)
  await arm(open, other)
  expect(armedOf(open)).toEqual(['own', other])
  expect((await open.venue.order('alice', order)).status).toBe('accepted')
})

test('a node is known to be lost later than it died: an account that armed elsewhere since, and disarmed there, keeps its orders', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const order = await armedAtFront(open, trader, `${NODE}1`)
  const { grace } = open.engine
  await grace.nodeBack(NODE, new Set([`${NODE}1`]))
  for (const armed of [true, false]) await arm(open, 'ffeeddccbbaa9988.1', armed)
  grace.nodeLost(NODE, 0)
  await grace.fire(NODE)
  expect((await open.venue.order('alice', order)).status).toBe('accepted')
})

test.each([
  ['at another node since its death', true, () => 0, 'accepted'],
  ['at another node before, when its own still lived', true, (now_ms: number) => now_ms + 1, 'cancelled'],
  ['at that node', false, () => 0, 'cancelled'],
] as const)(
  'a node is known to be lost later than it died: orders of an account that armed a socket %s',
  async (_, elsewhere, aliveAt, status) => {
    const open = await site.open()
    const trader = await Trader.provisioned(open, 'alice')
    const order = await armedAtFront(open, trader, `${NODE}1`)
    const { grace, clock } = open.engine
    await grace.nodeBack(NODE, new Set([`${NODE}1`]))
    await arm(open, elsewhere ? 'ffeeddccbbaa9988.1' : `${NODE}2`)
    grace.nodeLost(NODE, aliveAt(clock.monotonicMs()))
    await grace.fire(NODE)
    expect((await open.venue.order('alice', order)).status).toBe(status)
  },
)

/** The account `a` with an armed socket at NODE, in a state that the grace periods of one leader after the other change. */
function graceWorld() {
  const state = createState(FIXED_HASH_SEED)
  const account = { ...newAccount('a', new Uint8Array(32)), armed: new Set([`${NODE}1`]) }
  state.accounts.set('a', account)
  const submit = (command: CommandBody) => {
    execute(state, { ...command, unix_ms: 0 } as Command, {
      unavailable: undefined,
      past: undefined as never,
    })
    return Promise.resolve() as never
  }
  let now_ms = 0
  const ports = { clock: { monotonicMs: () => now_ms }, sequencer: { submit } }
  return {
    state,
    graceOf: (isServing = () => true) => new DisconnectGrace(state, { ...ports, isServing }, new Map()),
    leftMs: (grace: DisconnectGrace) =>
      LIMITS.disconnect_grace_ms - (grace as unknown as { waits: Map<string, number> }).waits.get(NODE)!,
    isArmed: () => account.armed.size > 0,
    /** The chain shows slots all along. @param every_ms how late the ticks are */
    ticks(grace: DisconnectGrace, seconds: number, every_ms = 250) {
      for (const until_ms = now_ms + 1_000 * seconds; now_ms < until_ms; ) {
        now_ms += every_ms
        state.slot = Math.floor(now_ms / 400)
        grace.tick()
      }
    },
    /** No node leads, or the leading one is stalled. */
    pass(ms: number) {
      now_ms += ms
      state.slot = Math.floor(now_ms / 400)
    },
  }
}

test('leaders that each last shorter than the grace period do not extend it, nor does the time in which none leads count', () => {
  const waits: number[] = []
  const { state, graceOf, leftMs, ticks, pass, isArmed } = graceWorld()
  const leader = (seconds: number) => {
    const grace = graceOf()
    grace.begin()
    waits.push(leftMs(grace))
    ticks(grace, seconds)
    grace.stop()
    pass(600_000)
    return grace
  }
  for (const seconds of [40, 8]) leader(seconds)
  const third = leader(11)
  // Of the eleven seconds the last is not journaled.
  expect(waits).toEqual([60_000, 20_000, 12_000])
  expect(state.absent).toEqual(new Map([[NODE, 58_000]]))
  // A node that is back has its whole grace period again.
  void third.nodeBack(NODE, new Set([`${NODE}1`]))
  expect(state.absent.size).toBe(0)
  leader(59)
  expect([waits.at(-1), isArmed()]).toEqual([60_000, true])
  leader(2)
  expect([waits.at(-1), isArmed()]).toEqual([2_000, false])
})

test('a leader that dies as it sees a chain that was silent, or before its first record, takes nothing of the grace period', () => {
  const { graceOf, leftMs, ticks, pass, isArmed } = graceWorld()
  let is_serving = true
  const first = graceOf(() => is_serving)
  first.begin()
  ticks(first, 6)
  is_serving = false
  ticks(first, 120)
  // Its slots come in one record, as do those of the next process before that one begins.
  pass(120_000)
  first.stop()
  graceOf().stop()
  pass(600_000)
  const next = graceOf()
  next.begin()
  expect(leftMs(next)).toBe(54_000)
  ticks(next, 53)
  expect(isArmed()).toBe(true)
  ticks(next, 1)
  expect(isArmed()).toBe(false)
  next.stop()
})

test('late ticks, and a lease that comes and goes, do not make the grace period endless; a process that stood still adds a second', () => {
  const { graceOf, leftMs, ticks, pass, isArmed } = graceWorld()
  let is_flapping = false
  let is_serving = true
  const grace = graceOf(() => {
    if (is_flapping) is_serving = !is_serving
    return is_serving
  })
  grace.begin()
  ticks(grace, 18, 360)
  expect(leftMs(grace)).toBe(42_000)
  pass(3_600_000)
  grace.tick()
  expect(leftMs(grace)).toBe(41_000)
  is_flapping = true
  ticks(grace, 60)
  expect(leftMs(grace)).toBe(11_000)
  ticks(grace, 22)
  expect(isArmed()).toBe(false)
  grace.stop()
})

test('after a takeover orders of armed sockets outlive a late lease, during which no client can arm', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const order_id = await armedAtFront(open, trader, `${NODE}1`)
  const { grace, availability } = open.engine
  grace.nodeLost(NODE, open.engine.clock.monotonicMs() + 1)
  const minutes = (count: number) => {
    for (let quarter = 0; quarter <= 240 * count; quarter++) {
      site.later_ms += LIMITS.disconnect_tick_ms
      grace.tick()
    }
  }
  const barred = spyOn(availability, 'barred').mockReturnValue('lease_lost')
  minutes(10)
  expect(armedOf(open)).toEqual([`${NODE}1`])
  // The anchor of a test is of its start.
  barred.mockReturnValue(undefined)
  minutes(1)
  await until(async () => (await open.venue.order('alice', order_id)).status === 'cancelled')
  barred.mockRestore()
})

test('the end of a socket that comes with its arming leaves nothing armed', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'alice')
  const { venue, engine } = open
  const [account_id, origin] = [accountId('alice'), `${NODE}1`]
  const of = (command: Parameters<typeof encodeCommand>[0]): Passed => ({
    kind: 'record',
    seq: engine.sequencer.seq_durable,
    access: 'trade',
    command: encodeCommand(command),
  })
  await Promise.all([
    venue.parsed.passed(
      of({ kind: 'arm_disconnect', account_id, origin, armed: true, unix_ms: 0 }),
      () => 0,
      isOpen,
    ),
    venue.parsed.passed(of({ kind: 'disconnected', account_id, origin, unix_ms: 0 }), () => 0, isOpen),
  ])
  expect(armedOf(open)).toEqual([])
})
