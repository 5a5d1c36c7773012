/**
 * Whole processes against a host that copies the disk, withholds every commit, and starts copy after copy to ask them with
 * another account. Two venues differ in the limit of one hidden order: before the commit the account sees the same in both, and
 * a second copy of one disk is not asked at all. The commit then shows that the answers would have differed.
 */
import { afterAll, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VenueProblem } from '../../client/api/venue_client'
import { collateralOf, prepareCancel, prepareModify, preparePlace } from '../../client/wallet/prepare'
import { transactionInstructions } from '../../engine/chain/client/transaction_status'
import { instructionName } from '../../protocol/vault/instruction'
import type { Order } from '../../protocol/wire/trading'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { SOL, USDC } from '../../sandbox/environment'
import { isAtRest } from '../kit/venue/open_test_venue'
import { readEvents } from './kit/crash_rounds'
import type { LoadTrader } from './kit/load_trader'
import { openTrader } from './kit/open_trader'
import { VenueProcess } from './kit/venue_process'

setDefaultTimeout(180_000)

const ROUNDS = Number(process.env['TACIT_FORK_ROUNDS'] ?? 1)
const SLOT_MS = 20
const TICK = 1_000n
/** The asking account's price to sell; the hidden buy lies above it in one venue, below it in the other. */
const ASKED = 150_000n * TICK
const HIDDEN = [ASKED + 700n * TICK, ASKED - 700n * TICK] as const

const opened: { stop(): Promise<void> }[] = []
afterAll(async () => {
  for (const one of opened) await one.stop()
})

/** A venue whose host controls its access to the chain. */
class Attacked {
  readonly venue = new VenueProcess({ TACIT_SLOT_MS: String(SLOT_MS) })
  private readonly copies = mkdtempSync(join(tmpdir(), 'tacit-forks-'))
  private chain!: OpenedChain
  private program_id = ''
  victim!: LoadTrader
  spy!: LoadTrader
  /** Positions that the host kept from the chain. */
  withheld = 0
  withholds = false

  async open(): Promise<void> {
    opened.push(this)
    await this.venue.start()
    this.program_id = this.venue.facts.program_id
    this.victim = await openTrader(this.venue, 'victim', { keys: 1, notes: 1, mints: [USDC] })
    this.spy = await openTrader(this.venue, 'spy', { keys: 1, notes: 5, mints: [SOL] })
    await this.end()
    const data_dir = join(this.copies, 'chain')
    renameSync(join(this.venue.data_dir, 'chain'), data_dir)
    this.chain = await openEmbeddedChain({ data_dir, slot_ms: SLOT_MS })
    const { machine } = this.chain
    const enqueue = machine.enqueue.bind(machine)
    machine.enqueue = (decoded) => {
      const name = instructionName(transactionInstructions(decoded.bytes).at(-1)!.data)
      if (this.withholds && name === 'anchor') this.withheld++
      else enqueue(decoded)
    }
    await this.start()
  }

  async start(): Promise<void> {
    const chain = { SOLANA_RPC_URL: this.chain.url, TACIT_PROGRAM_ID: this.program_id }
    expect(await this.venue.launch(chain)).toBe(true)
  }

  /** Both accounts on the venue that runs now, once it takes orders. */
  async connect(): Promise<void> {
    for (const trader of [this.victim, this.spy]) await trader.connect()
    while (!(await this.spy.client.status()).ready) await Bun.sleep(SLOT_MS)
  }

  /** kill -9, and nothing is connected any more. */
  async end(): Promise<void> {
    await this.venue.kill()
    for (const trader of [this.victim, this.spy]) trader.close()
  }

  copy(name: string): void {
    cpSync(this.venue.data_dir, join(this.copies, name), {
      recursive: true,
      filter: (path) => isAtRest(path) && !path.endsWith('.sock'),
    })
  }

  putBack(name: string): void {
    for (const one of readdirSync(this.venue.data_dir))
      rmSync(join(this.venue.data_dir, one), { recursive: true })
    cpSync(join(this.copies, name), this.venue.data_dir, { recursive: true })
  }

  async pass(slots: number): Promise<void> {
    const { slot } = await this.spy.client.time()
    while ((await this.spy.client.time()).slot < slot + slots) await Bun.sleep(SLOT_MS)
  }

  async stop(): Promise<void> {
    for (const trader of [this.victim, this.spy]) trader?.close()
    await this.venue.remove()
    await this.chain?.close()
    rmSync(this.copies, { recursive: true, force: true })
  }
}

async function hide({ victim }: Attacked, price_limit: bigint): Promise<void> {
  const { wallet, venue, instrument, slot, client } = victim
  const amount = 6_000_000_000n
  const terms = { instrument, side: 'buy', amount, price_limit, expiry_slot: slot + 100_000 } as const
  const { mint, amount: needed } = collateralOf(terms)
  await client.place(preparePlace(wallet, venue, terms, wallet.noteFor(mint, needed)!))
}

/** Ids, keys, hashes and signatures. */
const RANDOM = /^(?:[0-9a-f]{32,}|[1-9A-HJ-NP-Za-km-z]{43,})$/
const POSITION = /^(?:seq|unix_ms|slot|.*_slot|batch|leaf_index)$/

/** The part without times, positions and random names. */
const form = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (key, inner) =>
      POSITION.test(key) || (typeof inner === 'string' && RANDOM.test(inner)) ? null : inner,
    ),
  )

/** Each way of asking: at once, all or nothing, a minimum, a change of a resting order, and the cancel of one. */
async function ask(attacked: Attacked): Promise<unknown[]> {
  const { spy } = attacked
  const { wallet, venue, instrument, client } = spy
  const base = { instrument, side: 'sell', amount: 1_000_000_000n, price_limit: ASKED } as const
  const expiry_slot = (await client.time()).slot + 100_000
  const seen: unknown[] = []
  const told = async (name: string, answer: Promise<unknown>) => {
    const value = await answer.catch((error: unknown) => {
      if (error instanceof VenueProblem) return error.code
      throw error
    })
    seen.push([name, form(value)])
  }
  const place = async (name: string, change: Partial<Parameters<typeof preparePlace>[2]>) => {
    const note = wallet.noteFor(SOL, base.amount)!
    const request = preparePlace(wallet, venue, { ...base, expiry_slot, ...change }, note)
    await told(name, client.place(request))
    return request.order_id
  }
  const orders = [
    await place('ioc', { type: 'ioc' }),
    await place('fok', { type: 'fok' }),
    await place('minimum', { min_fill: base.amount }),
    await place('changed', { price_limit: ASKED + TICK }),
    await place('cancelled', {}),
  ]
  await attacked.pass(12)
  const modify = prepareModify(wallet, venue, orders[3]!, { ...base, expiry_slot })
  await told('modify', client.modify(orders[3]!, modify))
  await told('cancel', client.cancel(orders[4]!, prepareCancel(wallet, venue, orders[4]!, 0)))
  await attacked.pass(12)
  for (const id of orders) await told('order', client.order(id))
  await told('notes', client.inclusion({ commitment: modify.replacement.collateral_commitment }))
  const events = (await readEvents(client)).filter(
    ({ kind }) => kind.startsWith('fill.') || kind.startsWith('order.'),
  )
  seen.push(form(events.map(({ kind, data }) => [kind, data])))
  const { mints, tree, statistics } = await client.transparency()
  seen.push(form([mints, tree, statistics]))
  return seen
}

/** Statuses of the asking account's orders once batches are decided. */
async function decided({ spy }: Attacked): Promise<string[]> {
  for (;;) {
    const events = await readEvents(spy.client)
    const asked = events.filter(({ kind }) => kind === 'order.accepted').slice(0, 2)
    const ids = asked.map(({ data }) => (data as Order).order_id)
    const now = await Promise.all(ids.map((id) => spy.client.order(id)))
    if (now.every(({ status }) => status !== 'accepted')) return now.map(({ status }) => status)
    await Bun.sleep(SLOT_MS)
  }
}

async function attack(price_limit: bigint) {
  const attacked = new Attacked()
  await attacked.open()
  await attacked.connect()
  attacked.withholds = true
  await hide(attacked, price_limit)
  await attacked.pass(8)
  // At rest: records that the first instance appended behind a copy would make the second one `rolled_back` instead.
  await attacked.end()
  attacked.copy('hidden')
  // The first copy opens the next epoch, and is asked.
  await attacked.start()
  await attacked.connect()
  const first = await ask(attacked)
  attacked.copy('asked')
  await attacked.end()
  // A second one of the same disk lacks the record of that epoch.
  attacked.putBack('hidden')
  await attacked.start()
  while ((await attacked.spy.client.status()).matching !== 'stopped') await Bun.sleep(SLOT_MS)
  const { reasons } = await attacked.spy.client.status()
  // A login is an event of the account: an instance that acknowledges nothing gives none.
  const second = await attacked.spy.client.login().catch((error: VenueProblem) => error.code)
  await attacked.end()
  attacked.putBack('asked')
  attacked.withholds = false
  await attacked.start()
  await attacked.connect()
  const outcome = await decided(attacked)
  expect(attacked.withheld).toBeGreaterThan(0)
  await attacked.stop()
  return { first, second, reasons: reasons.map((reason) => reason.split(':')[0]), outcome }
}

test(
  'copies of a disk show nothing of a hidden order before the commit, and one disk is asked once',
  async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const [above, below] = await Promise.all(HIDDEN.map(attack))
      expect(above!.first).toEqual(below!.first)
      expect(above!.second).toBe(below!.second)
      expect(above!.reasons).toEqual(below!.reasons)
      expect(above!.reasons).toContain('forked')
      // The fact that would leak to the host.
      expect(above!.outcome).toEqual(['filled', 'filled'])
      expect(below!.outcome).toEqual(['cancelled', 'cancelled'])
    }
  },
  ROUNDS * 300_000,
)
