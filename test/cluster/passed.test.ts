/** The leading node executes what another node passes on, and rejects what was verified before a token of the account ended. */
import { afterEach, expect, test } from 'bun:test'
import { intakePlace } from '../../engine/intake/requests'
import { encodeCommand } from '../../engine/machine/codec/command_codec'
import type { Passed } from '../../engine/venue'
import { fromHex } from '../../protocol/bytes'
import { parserOf } from '../../protocol/wire/parse'
import { PlaceRequest, type PlaceResult } from '../../protocol/wire/trading'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { refusalOf } from '../kit/venue/refusal_of'
import { accountId, testCredential } from '../kit/venue/test_login'
import { Trader } from '../kit/venue/trader'

let site = new TestSite()
afterEach(async () => {
  await site.remove()
  site = new TestSite()
})

const parse = parserOf(PlaceRequest)

/** A place as a node that follows verifies and passes it on, by what it had at `seq`. */
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

test('a command that was passed on is answered with its receipt, and its resend with the same', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const { engine } = open
  const passed = passedOf(open, request, engine.sequencer.seq_durable)
  const costs: string[] = []
  const { value, seq } = await open.venue.parsed.passed(passed, ({ kind }) => {
    costs.push(kind)
    return 1
  })
  const { receipt, ...placed } = value as PlaceResult
  expect(placed).toMatchObject({ order_id: request.order_id, status: 'accepted' })
  expect(receipt.epoch).toBe(engine.state.epoch)
  expect(seq).toBeGreaterThanOrEqual(receipt.seq)
  expect(costs).toEqual(['place'])
  const again = await refusalOf(open.venue.parsed.passed(passed, () => 0))
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
  expect(await refusalOf(open.venue.parsed.passed(late, () => 0))).toMatchObject({
    code: 'lease_lost',
    applied: 'no',
  })
  expect(engine.state.orders.size).toBe(0)
  const timely = passedOf(open, trader.place(two), engine.sequencer.seq_durable)
  await open.venue.parsed.passed(timely, () => 0)
  expect(engine.state.orders.size).toBe(1)
})

test('a credential that is set at the leading node is answered once no other node answers by an older one', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'alice')
  const { engine, venue } = open
  const before = engine.sequencer.seq_durable
  const awaited: number[] = []
  Object.assign(engine, { fronts: { applied: async (seq: number) => void awaited.push(seq) } })
  const id = fromHex(venue.identity().venue, 32)!
  await venue.setCredential(undefined, testCredential('alice', id, { version: 2 }).request)
  expect(awaited).toHaveLength(1)
  expect(awaited[0]).toBeGreaterThan(before)
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
    expect(await refusalOf(open.venue.parsed.passed(passed, () => 0))).toMatchObject({
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
  await venue.parsed.passed({ kind: 'record', seq, access: 'trade', command }, () => 0)
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  await venue.place('alice', request, origin)
  return request.order_id
}
const armedOf = ({ engine }: TestVenue) => [...engine.state.accounts.get(accountId('alice'))!.armed]

test('a planned stop disarms the sockets that it closes, and none of another node, whose clients were not told', async () => {
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
  await grace.fire()
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
    venue.parsed.passed(of({ kind: 'arm_disconnect', account_id, origin, armed: true, unix_ms: 0 }), () => 0),
    venue.parsed.passed(of({ kind: 'disconnected', account_id, origin, unix_ms: 0 }), () => 0),
  ])
  expect(armedOf(open)).toEqual([])
})
