/** Mutations of instruction data: lengths, bytes, numbers at their limits, words of elsewhere. */
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import type { World } from '../world'
import { type Mutation, ofOne } from './mutation'

const MODULUS = Buffer.from('30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001', 'hex')
const SETTLE = 4
const SETTLE_HEADER_BYTES = 101
const U64_MAX = (1n << 64n) - 1n

const ofData = (change: (world: World, data: Uint8Array) => Uint8Array): Mutation =>
  ofOne((world, instruction) => ({ ...instruction, data: change(world, instruction.data.slice()) }))

const truncate = ofData((world, data) => data.slice(0, world.chance.below(data.length + 1)))
const truncateALittle = ofData((world, data) => data.slice(0, -1 - world.chance.below(4)))
const extend = ofData((world, data) =>
  Uint8Array.from([...data, ...world.chance.bytes(1 + world.chance.below(40))]),
)
const extendByZero = ofData((_, data) => Uint8Array.from([...data, 0]))
const discriminator = ofData((world, data) => {
  data[0] = world.chance.oneIn(8) ? 255 : world.chance.below(19)
  return data
})

/** Places of fields: most are near the front. */
const placeIn = (world: World, data: Uint8Array): number =>
  world.chance.below(world.chance.oneIn(2) ? Math.min(data.length, 160) : data.length) || 0

const flipBit = ofData((world, data) => {
  if (data.length > 0) data[placeIn(world, data)]! ^= 1 << world.chance.below(8)
  return data
})
const setByte = ofData((world, data) => {
  if (data.length > 0)
    data[placeIn(world, data)] = world.chance.pick([0, 1, 2, 3, 8, 9, 24, 25, 56, 57, 80, 81, 127, 255])
  return data
})

const limits = (old: bigint): bigint[] => [
  0n,
  1n,
  U64_MAX,
  U64_MAX - 1n,
  1n << 63n,
  1n << 32n,
  old + 1n,
  old - 1n,
  old * 2n,
  old / 2n,
  old | (1n << 63n),
  ~old,
]
const setNumber = ofData((world, data) => {
  if (data.length < 9) return data
  const at = world.chance.oneIn(3) ? placeIn(world, data) : 1 + 8 * world.chance.below(16)
  if (at + 8 > data.length) return data
  const view = new DataView(data.buffer)
  const number = world.chance.pick(limits(view.getBigUint64(at, true)))
  view.setBigUint64(at, BigInt.asUintN(64, number), true)
  return data
})

/** Words that mean something: zero, the field's edge, roots, keys, and a word of the same data. */
function wordFor(world: World, data: Uint8Array): Uint8Array {
  const at = world.chance.below(Math.max(1, data.length - 32))
  const above = Uint8Array.from(MODULUS)
  above[31]! += 1
  const below = Uint8Array.from(MODULUS)
  below[31]! -= 1
  const { ledger, vault } = world
  const words = [
    new Uint8Array(32),
    MODULUS,
    above,
    below,
    new Uint8Array(32).fill(255),
    data.slice(at, at + 32),
    ledger.get(vault.tree).data.slice(16, 48),
    ledger.get(vault.tree).data.slice(1_328, 1_360),
    ledger.get(vault.ring).data.slice(64, 96),
    ledger.get(vault.ring).data.slice(32, 64),
    world.attacker,
    world.chance.element(),
    world.chance.pick(world.notes.map(({ nullifier }) => nullifier).concat(world.attacker)),
  ]
  return world.chance.pick(words)
}
const setWord = ofData((world, data) => {
  const at = world.chance.oneIn(3)
    ? placeIn(world, data)
    : world.chance.pick([1, 2, 9, 10, 25, 33, 42, 50, 58, 65, 74, 82, 90, 98, 101, 114, 122, 133, 154, 165])
  const word = wordFor(world, data)
  if (at + 32 <= data.length && word.length === 32) data.set(word, at)
  return data
})

/** Swaps two nullifiers, outputs or siblings, or puts one in the place of both. */
const moveSpan = ofData((world, data) => {
  const width = world.chance.pick([8, 10, 32, 32, 48, 75])
  const front = SETTLE_HEADER_BYTES + (width === 48 ? 32 * (data[98] ?? 0) : 0)
  const count = Math.min(4, Math.floor((data.length - front) / width))
  if (count < 2) return data
  const [a, b] = [front + width * world.chance.below(count), front + width * world.chance.below(count)]
  const [first, second] = [data.slice(a, a + width), data.slice(b, b + width)]
  data.set(second, a)
  if (world.chance.oneIn(2)) data.set(first, b)
  return data
})

/** One field of one payout of a batch: kind u8, mint u8, nullifier u8, amount u64, destination (32), inner (32). */
const payoutField = ofData((world, data) => {
  const [nullifiers, outputs, payouts] = [data[98] ?? 0, data[99] ?? 0, data[100] ?? 0]
  const at =
    SETTLE_HEADER_BYTES + 32 * nullifiers + 48 * outputs + 75 * world.chance.below(Math.max(1, payouts))
  if (data[0] !== SETTLE || payouts === 0 || at + 75 > data.length) return data
  const view = new DataView(data.buffer)
  const changes = [
    () => data.set([1 - data[at]!], at),
    () => data.set([world.chance.below(3)], at + 1),
    () => data.set([world.chance.below(4)], at + 2),
    () =>
      view.setBigUint64(at + 3, view.getBigUint64(at + 3, true) + world.chance.pick([1n, -1n, 1_000n]), true),
    () => data.set(world.attacker, at + 11),
    () => data.set(world.newInner(), at + 43),
  ]
  world.chance.pick(changes)()
  return data
})

const foreignData = ofOne((world, instruction): VaultInstruction => {
  const data = world.chance.bytes(world.chance.below(300))
  if (data.length > 0) data[0] = instruction.data[0] ?? 0
  return { ...instruction, data }
})

export const DATA_MUTATIONS: readonly Mutation[] = [
  truncate,
  truncateALittle,
  extend,
  extendByZero,
  discriminator,
  flipBit,
  flipBit,
  setByte,
  setByte,
  setNumber,
  setNumber,
  setNumber,
  setWord,
  setWord,
  setWord,
  moveSpan,
  payoutField,
  payoutField,
  foreignData,
]
