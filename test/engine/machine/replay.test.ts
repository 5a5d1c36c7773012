/** The state follows from its commands alone, and an auction from its orders alone. Failures print their seed. */

import { expect, test } from 'bun:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { CommandBody } from '../../../engine/commands'
import { decodeCommand, decodeReplayed } from '../../../engine/machine/codec/command_codec'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeBlocks, encodeState, stateHash } from '../../../engine/machine/codec/encode_state'
import { execute } from '../../../engine/machine/rules/execute'
import { createState } from '../../../engine/machine/state/state'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import type * as wire from '../../../protocol/wire/trading'
import { expectGolden } from '../../kit/golden'
import { FIXED_HASH_SEED, seeded, World } from '../../kit/venue/machine_world'
import { played, steps } from './random_commands'

const RUNS = { numRuns: 40 }

test('a replay that skips events and signatures gives the same state and auctions', () => {
  fc.assert(
    fc.property(steps, (stream) => {
      const world = played(stream)
      const state = createState(FIXED_HASH_SEED)
      const auctions = world.journal.flatMap((bytes) => {
        const outcome = execute(state, decodeReplayed(bytes), {}, 'skipped')
        if (!outcome.ok) throw new Error(outcome.code)
        expect(outcome.events).toEqual([])
        return outcome.auctions
      })
      expect(stateHash(state)).toEqual(stateHash(world.state))
      expect(auctions).toEqual(world.auctions)
    }),
    RUNS,
  )
})

test('replaying the encoded commands gives the same state hash, from the start and from any snapshot', () => {
  fc.assert(
    fc.property(steps, fc.nat(1_000), (stream, cut) => {
      const world = played(stream)
      const split = cut % world.journal.length
      const from_start = createState(FIXED_HASH_SEED)
      let restored = createState(FIXED_HASH_SEED)
      world.journal.forEach((bytes, at) => {
        if (at === split) restored = decodeState(encodeBlocks(from_start, 1 + (cut % 700)), FIXED_HASH_SEED)
        const command = decodeCommand(bytes)
        const outcome = execute(from_start, command, {})
        expect(outcome.ok).toBe(true)
        if (at >= split) expect(execute(restored, command, {})).toEqual(outcome)
      })
      expect(stateHash(from_start)).toEqual(stateHash(world.state))
      expect(stateHash(restored)).toEqual(stateHash(world.state))
      const blocks: Uint8Array[] = []
      for (const block of encodeBlocks(restored, 1 + cut)) blocks.push(block.slice())
      expect(concatBytes(...blocks)).toEqual(encodeState(restored))
    }),
    RUNS,
  )
})

const orders = fc.array(
  fc.record({
    buys: fc.boolean(),
    lots: fc.integer({ min: 1, max: 30 }),
    ticks: fc.integer({ min: 95, max: 105 }),
    min: fc.nat(2),
    type: fc.constantFrom('limit' as const, 'ioc' as const, 'fok' as const),
  }),
  { minLength: 2, maxLength: 24 },
)

test('reordering new orders inside one batch changes nothing', () => {
  fc.assert(
    fc.property(orders, fc.infiniteStream(fc.nat(1_000)), (book, shuffle) => {
      const inOrder = auctionOf(
        book,
        book.map((_, at) => at),
      )
      const ranks = book.map(() => shuffle.next().value as number)
      const shuffled = book.map((_, at) => at).sort((a, b) => ranks[a]! - ranks[b]! || b - a)
      expect(auctionOf(book, shuffled)).toEqual(inOrder)
    }),
    RUNS,
  )
})

/** Every order by a separate account, so that its acceptance does not depend on other orders. */
function auctionOf(
  book: { buys: boolean; lots: number; ticks: number; min: number; type: 'limit' | 'ioc' | 'fok' }[],
  sequence: number[],
) {
  const world = new World()
  const commands = book.map((one, at) => {
    world.account(`account ${at}`)
    const min_lots = one.type === 'limit' && one.min > 0 ? Math.floor(one.lots / one.min) : 0
    return world.placing(`account ${at}`, seeded(`key ${at}`), {
      side: one.buys ? 'buy' : 'sell',
      type: one.type,
      amount: BigInt(one.lots) * 1_000_000n,
      price_limit: BigInt(one.ticks) * 1_000n,
      min_fill: BigInt(min_lots) * 1_000_000n,
      nonce: 1n,
    })
  })
  for (const at of sequence) world.must(commands[at]!)
  const { auctions } = world.close()
  world.hashAll()
  const fills = world.events
    .filter((one) => one.event.kind === 'fill.matched')
    .map((one) => one.event.data as wire.Fill)
    .sort((a, b) => (a.order_id + a.fill_index < b.order_id + b.fill_index ? -1 : 1))
  return { auctions, fills }
}

/** Commands of every kind of trade, payment, exit and halt, each behind its length in 4 bytes, compressed. */
const file = new URL('../../golden/recorded_journal.gz', import.meta.url)

/** `UPDATE_GOLDEN=1` records another journal: only for a build whose records have another layout. */
async function record(): Promise<void> {
  const streams = fc.sample(steps, { seed: 16, numRuns: 24 })
  const { journal } = played(streams.flat(), (world, at) => {
    if (at % 400 === 399)
      for (const kind of ['halted', 'resumed'] as const)
        world.must({ kind, reason: 'vault_paused' } as CommandBody)
  })
  const framed = journal.flatMap((bytes) => {
    const length = new Uint8Array(4)
    new DataView(length.buffer).setUint32(0, bytes.length, true)
    return [length, bytes]
  })
  await Bun.write(file, gzipSync(concatBytes(...framed)))
}

async function recorded(): Promise<Uint8Array[]> {
  const all = new Uint8Array(gunzipSync(await Bun.file(file).bytes()))
  const view = new DataView(all.buffer)
  const commands: Uint8Array[] = []
  for (let at = 0; at < all.length; at += 4 + view.getUint32(at, true)) {
    commands.push(all.slice(at + 4, at + 4 + view.getUint32(at, true)))
  }
  return commands
}

function plain(_: string, value: unknown): unknown {
  if (value instanceof Map) return [...value]
  if (typeof value === 'bigint') return value.toString()
  return value instanceof Uint8Array ? value.toHex() : value
}

const CHECK_EVERY = 500

test('a recorded journal gives the outcomes and states it gave when it was recorded', async () => {
  if (process.env['UPDATE_GOLDEN'] === '1') await record()
  const commands = await recorded()
  let state = createState(FIXED_HASH_SEED)
  let outcomes = utf8('outcomes')
  const checkpoints: { commands: number; state: string; outcomes: string }[] = []
  commands.forEach((bytes, at) => {
    const outcome = execute(state, decodeCommand(bytes), {})
    outcomes = sha256(outcomes, utf8(JSON.stringify(outcome, plain)))
    if ((at + 1) % CHECK_EVERY > 0 && at + 1 < commands.length) return
    const snapshot = encodeState(state)
    checkpoints.push({ commands: at + 1, state: sha256(snapshot).toHex(), outcomes: outcomes.toHex() })
    // From here on by a state that went through a snapshot, as after a boot.
    state = decodeState(snapshot, FIXED_HASH_SEED)
    expect(encodeState(state)).toEqual(snapshot)
  })
  expectGolden('recorded_journal.json', { checkpoints })
})
