/** Commands of one turn of the event loop are journaled, and judged, in the order in which they arrived; each is answered. */
import { afterEach, expect, test } from 'bun:test'
import { decodeCommand } from '../../../engine/machine/codec/command_codec'
import { COMMAND_RECORD } from '../../../engine/sequencer/replayer'
import { Random } from '../../kit/random'
import { TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { accountId } from '../../kit/venue/test_login'
import { type Deposit, Trader } from '../../kit/venue/trader'

const SEED = Number(process.env['TACIT_SEED'] ?? 35)
const site = new TestSite()
afterEach(() => site.remove())

const outcome = (answer: Promise<unknown>): Promise<string> =>
  answer.then(
    () => 'accepted',
    (error) => error.code ?? String(error),
  )
/** An order that rests. */
const LOW = { price_limit: '50000000' }

class World {
  /** Kinds of the records that came since the last call, as `kind detail`. */
  readonly journaled: string[] = []
  private constructor(
    readonly open: TestVenue,
    readonly traders: readonly [Trader, Trader],
    private readonly deposits: Map<Trader, Deposit[]>,
  ) {
    const { journal } = open.engine.loaded
    const append = journal.append.bind(journal)
    journal.append = (records, root) => {
      for (const { type, body } of records) {
        if (type !== COMMAND_RECORD) continue
        const command = decodeCommand(body)
        if (command.kind === 'place') this.journaled.push(`place ${command.order_id.toHex()}`)
        else if (command.kind === 'dead_man') this.journaled.push(`dead_man ${command.timeout_slots}`)
        else if (command.kind === 'slot' || command.kind === 'arm_disconnect')
          this.journaled.push(command.kind)
      }
      return append(records, root)
    }
  }

  static async open(): Promise<World> {
    const open = await site.open()
    const traders = [await Trader.provisioned(open, 'alice'), await Trader.provisioned(open, 'bob')] as const
    const made = traders.map((one): [Trader, Deposit[]] => [
      one,
      Array.from({ length: 100 }, () => one.deposit('quote', 200_000_000n)),
    ])
    await open.chain.finalizeLeaves()
    await open.chain.tick(1)
    return new World(open, traders, new Map(made))
  }

  order(trader: Trader) {
    return trader.place(this.deposits.get(trader)!.pop()!, LOW)
  }

  place(trader: Trader): Promise<string> {
    return outcome(this.open.venue.place(trader.account_id, this.order(trader)))
  }

  cancelAll(trader: Trader): Promise<string> {
    return outcome(this.open.venue.cancelAll(trader.account_id, [trader.cancelAll()]))
  }
}

test(`turns of any commands, slots between them, are journaled as they arrived (seed ${SEED})`, async () => {
  const world = await World.open()
  const { venue, chain, ledger } = world.open
  const random = new Random(SEED)
  let timeout = 100
  for (let round = 0; round < 25; round++) {
    world.journaled.length = 0
    const expected: string[] = []
    const answers: Promise<string>[] = []
    const acts = [
      (trader: Trader) => {
        const order = world.order(trader)
        expected.push(`place ${order.order_id}`)
        answers.push(outcome(venue.place(trader.account_id, order)))
      },
      (trader: Trader) => {
        const order = world.order(trader)
        const forged = { ...order, nonce: `${BigInt(order.nonce) + 1n}` }
        answers.push(outcome(venue.place(trader.account_id, forged)))
      },
      (trader: Trader) => {
        const request = trader.deadMan(timeout++)
        expected.push(`dead_man ${request.timeout_slots}`)
        answers.push(outcome(venue.deadMan(trader.account_id, request)))
      },
      ({ account_id }: Trader) => {
        expected.push('arm_disconnect')
        answers.push(outcome(venue.armDisconnect(account_id, account_id, true)))
      },
      () => {
        expected.push('slot')
        ledger.slot += 1
        chain.sink.slot(ledger.slot)
      },
    ]
    const size = random.between(1, 8)
    for (let at = 0; at < size; at++) random.pick(acts)(random.pick(world.traders))
    const codes = await Promise.all(answers)
    await world.open.engine.sequencer.durable()
    expect(codes.filter((code) => code !== 'accepted' && code !== 'signature_invalid')).toEqual([])
    expect(world.journaled).toEqual(expected)
    await chain.decided()
  }
}, 60_000)

test('an order and then the end of its socket leave no order', async () => {
  const world = await World.open()
  const { venue, engine } = world.open
  await venue.armDisconnect('alice', 'node/socket', true)
  const placed = outcome(venue.place('alice', world.order(world.traders[0]), 'node/socket'))
  await venue.disconnected('alice', 'node/socket')
  expect(await placed).toBe('accepted')
  await engine.sequencer.durable()
  expect(engine.state.accounts.get(accountId('alice'))!.live).toBe(0)
})

test('an order that arrives while no slot comes is refused, also where the next slot comes in its turn', async () => {
  const world = await World.open()
  const { open, traders } = world
  await open.engine.anchoring.now()
  site.later_ms += 20_000
  const answer = world.place(traders[0])
  await open.chain.tick(1)
  expect(await answer).toBe('reopening')
})

test('commands that arrived before a drain, a close or a hand-over are served; every one is answered at any end', async () => {
  const ends: [(open: TestVenue) => unknown, served: boolean][] = [
    [({ venue }) => venue.drain(), true],
    [(open) => open.close(), true],
    [({ engine }) => engine.halt('self_check'), false],
    [({ engine }) => engine.sequencer.stop(new Error('stopped')), false],
  ]
  for (const [end, served] of ends) {
    const world = await World.open()
    const [alice, bob] = world.traders
    const before = [world.place(alice), world.cancelAll(bob), world.place(alice)]
    const ended = end(world.open)
    const after = world.place(bob)
    expect(await Promise.all(before)).toEqual(before.map(() => (served ? 'accepted' : expect.any(String))))
    expect(await after).toBeString()
    await ended
    await site.remove()
  }
}, 60_000)

test('a cancel that arrives in the last turn of a drain is served', async () => {
  const world = await World.open()
  const [alice] = world.traders
  const { availability } = world.open.engine
  const release = availability.release.bind(availability)
  let cancelled: Promise<string> | undefined
  availability.release = () => {
    cancelled = world.cancelAll(alice)
    release()
  }
  await world.open.venue.drain()
  expect(await cancelled).toBe('accepted')
})

test('a command whose decision fails leaves none of its turn without an answer', async () => {
  const world = await World.open()
  const [alice, bob] = world.traders
  const { notes } = world.open.engine.state
  const find = notes.find.bind(notes)
  let failing = true
  notes.find = (commitment) => {
    if (!failing) return find(commitment)
    failing = false
    throw new Error('planted')
  }
  const codes = await Promise.all([world.place(alice), world.place(bob), world.place(alice)])
  expect(codes.slice(1).every((code) => code.length > 0)).toBe(true)
  expect(codes[0]).not.toBe('accepted')
})
