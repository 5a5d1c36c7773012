/**
 * The host copies the disk, asks the copy with a separate account, and puts the copy back, as often as it likes. Before the
 * commit no copy answers otherwise for another hidden order, and a copy whose commit is not on chain ends void. Each way of
 * asking is tried on 200 forks; TACIT_FORKS_SEED replays them.
 */
import { expect, test } from 'bun:test'
import { decodeState, encodeState } from '../../engine/machine/codec/state_codec'
import type { Outcome } from '../../engine/machine/state/outcome'
import { Random } from '../kit/random'
import { key, LOT, SIGNATURE, seeded, TICK, World } from '../kit/venue/machine_world'

const FORKS = 200
const SEED = Number(process.env['TACIT_FORKS_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const HIDDEN_ID = seeded('hidden order').slice(0, 16)
const SPY = key('spy')

type Hidden = {
  ticks: bigint
  lots: bigint
  min_lots: bigint
  type: 'limit' | 'ioc' | 'fok'
  side: 'buy' | 'sell'
}

/** Everything the spy sees of a fork. */
class Fork {
  readonly seen: unknown[] = []
  constructor(
    readonly world: World,
    readonly hidden_note: Uint8Array,
  ) {}

  run(command: Parameters<World['run']>[0]): Outcome {
    const from = this.world.events.length
    const outcome = this.world.run(command)
    const own = command.kind === 'slot' || command.kind === 'closed' || command.kind === 'decided'
    this.seen.push(
      own ? outcome.ok : outcome.ok ? outcome.answer : { code: outcome.code, facts: outcome.facts },
    )
    const events = this.world.events.slice(from).filter(({ account_id }) => account_id === 'spy')
    this.seen.push(events.map(({ event }) => event))
    return outcome
  }

  place(change: object): string {
    const command = this.world.placing('spy', SPY, change)
    this.run(command)
    return command.order_id.toHex()
  }

  cancel(order_id: string, cancel_nonce: bigint): void {
    const body = { trading_key: SPY, cancel_nonce, signature: SIGNATURE }
    this.run({ kind: 'cancel', account_id: 'spy', order_id: Uint8Array.fromHex(order_id), ...body })
  }

  pass(slots: number): void {
    this.run({ kind: 'slot', slot: this.world.state.slot + slots, reopens_slot: 0 })
  }

  close(): void {
    this.pass(5 - (this.world.state.slot % 5))
    expect(this.world.closeOnly()).toBe(true)
  }
}

/** A venue with one hidden order, a spy with notes, and nothing else that differs. */
function openFork(hidden: Hidden): Fork {
  const world = new World()
  for (const name of ['victim', 'spy']) world.account(name, { orders_live_max: 4, keys_max: 2 })
  const victim = world.placing('victim', key('victim'), {
    order_id: HIDDEN_ID,
    side: hidden.side,
    type: hidden.type,
    amount: hidden.lots * LOT,
    price_limit: hidden.ticks * TICK,
    min_fill: hidden.type === 'limit' ? hidden.min_lots * LOT : 0n,
    expiry_slot: 1_900,
    // The same deposit backs every hidden order.
    collateral_commitment: new Uint8Array(32),
  })
  const opening = world.deposit(
    key('victim'),
    seeded(hidden.side === 'buy' ? 'quote mint' : 'base mint'),
    10n ** 12n,
  )
  world.must({ ...victim, collateral_commitment: opening.commitment, opening })
  // The copy: a boot from this disk.
  world.state = decodeState(encodeState(world.state), [1, 2])
  return new Fork(world, opening.commitment)
}

/** One question that the host can put to a copy: the commands are the same for every hidden order. */
type Ask = (fork: Fork, random: Random) => void

const price = (random: Random) => BigInt(random.between(90, 110)) * TICK
const side = (random: Random) => random.pick(['buy', 'sell'] as const)

const ASKS: Record<string, Ask> = {
  'the first attack: an ioc order at a price': (fork, random) => {
    fork.place({ type: 'ioc', side: side(random), price_limit: price(random), amount: LOT })
    fork.close()
  },
  'a fok order': (fork, random) => {
    const amount = BigInt(random.between(1, 40)) * LOT
    fork.place({ type: 'fok', side: side(random), price_limit: price(random), amount })
    fork.close()
  },
  'a minimum fill': (fork, random) => {
    const lots = BigInt(random.between(2, 40))
    fork.place({
      side: side(random),
      price_limit: price(random),
      amount: lots * LOT,
      min_fill: (lots - 1n) * LOT,
    })
    fork.close()
  },
  'the answers to cancels and modifies': (fork, random) => {
    const order = fork.place({ side: side(random), price_limit: price(random) })
    fork.close()
    const hidden = HIDDEN_ID.toHex()
    fork.cancel(random.chance(0.5) ? order : hidden, 1n)
    const cancel = {
      order_id: Uint8Array.fromHex(order),
      trading_key: SPY,
      cancel_nonce: 2n,
      signature: SIGNATURE,
    }
    const replacement = fork.world.placing('spy', SPY, { price_limit: price(random), nonce: 50n })
    fork.run({ kind: 'modify', account_id: 'spy', origin: undefined, cancel, replacement })
    const items = [{ trading_key: SPY, cancel_nonce: 3n, symbol: undefined, signature: SIGNATURE }]
    fork.run({ kind: 'cancel_all', account_id: 'spy', items })
  },
  'the bounds on orders, keys and waiting commands': (fork, random) => {
    for (let count = 0; count < 6; count++)
      fork.place({ price_limit: price(random), nonce: BigInt(10 + count) })
    const order = fork.place({ price_limit: price(random), nonce: 30n })
    fork.close()
    for (let nonce = 1n; nonce < 7n; nonce++) fork.cancel(order, nonce)
  },
  'the openings of notes': (fork, random) => {
    const named = fork.hidden_note
    const opened = fork.world.deposit(SPY, seeded('quote mint'), 10n ** 9n)
    const opening = random.chance(0.5) ? { ...opened, commitment: named } : undefined
    fork.place({ side: side(random), collateral_commitment: named, opening, price_limit: price(random) })
    const anchor = seeded('anchor')
    const body = { trading_key: SPY, nonce: 9n, expiry_slot: 1_500, signature: SIGNATURE }
    const rest = {
      reshape_id: seeded('r').slice(0, 16),
      inputs: [named],
      amounts: [1n, 2n],
      anchor,
      openings: [opening],
    }
    fork.run({ kind: 'reshape', account_id: 'spy', ...body, ...rest })
    fork.close()
  },
  'the time at which waiting changes act': (fork, random) => {
    const order = fork.place({ side: side(random), price_limit: price(random), expiry_slot: 1_008 })
    const timed = fork.place({ price_limit: price(random) })
    const timer = {
      trading_key: SPY,
      cancel_nonce: 1n,
      timeout_slots: random.between(1, 9),
      signature: SIGNATURE,
    }
    fork.run({ kind: 'dead_man', account_id: 'spy', ...timer })
    fork.close()
    fork.cancel(random.chance(0.5) ? order : timed, 2n)
    for (let slots = random.between(1, 20); slots > 0; slots--) fork.pass(1)
  },
}

/** The number of the fork's close in the journal, and the records after a commit that is not on chain. */
function voided(fork: Fork): void {
  const { slot, epoch, closed } = fork.world.state
  fork.run({ kind: 'decided', seq: closed!.seq, outcome: 'void', slot, epoch: epoch + 1, commit_seq: 0 })
  fork.place({ price_limit: 50n * TICK, nonce: 900n })
}

const text = (value: unknown) =>
  JSON.stringify(value, (_, one) =>
    typeof one === 'bigint' ? `${one}` : one instanceof Uint8Array ? one.toHex() : one,
  )

function hiddenOrder(random: Random, side: Hidden['side']): Hidden {
  return {
    side,
    ticks: BigInt(random.between(92, 108)),
    lots: BigInt(random.between(1, 60)),
    min_lots: 0n,
    type: random.pick(['limit', 'ioc', 'fok'] as const),
  }
}

for (const [name, ask] of Object.entries(ASKS)) {
  test(`${FORKS} forks tell nothing by ${name}`, () => {
    console.log(`TACIT_FORKS_SEED=${SEED}`)
    const random = new Random(SEED)
    let differ = 0
    for (let fork = 0; fork < FORKS; fork++) {
      const side = random.pick(['buy', 'sell'] as const)
      const question = random.between(1, 2 ** 31)
      const forks = [hiddenOrder(random, side), hiddenOrder(random, side)].map(openFork)
      for (const one of forks) ask(one, new Random(question))
      const [before, other] = forks.map(({ seen }) => text(seen))
      expect(before).toBe(other!)
      // The auction's result, had this copy's close been the one on chain: the forks do differ.
      const results = forks.map(({ world }) => {
        const copy = new World()
        copy.state = decodeState(encodeState(world.state), [1, 2])
        return text(copy.decide('committed').events.filter(({ account_id }) => account_id === 'spy'))
      })
      if (results[0] !== results[1]) differ += 1
      for (const one of forks) voided(one)
      expect(text(forks[0]!.seen)).toBe(text(forks[1]!.seen))
    }
    // Questions about notes place no order that could trade.
    if (!name.includes('notes')) expect(differ).toBeGreaterThan(FORKS / 20)
  }, 120_000)
}
