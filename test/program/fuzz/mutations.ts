/** Mutations: each is one change that an attacker could make to a transaction. */
import { toHex, u64Le } from '../../../protocol/bytes'
import {
  exitRequestAddress,
  mintRecordAddress,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  vaultAddresses,
  vaultTokenAddress,
} from '../../../protocol/vault/addresses'
import type { InstructionAccount, VaultInstruction } from '../../../protocol/vault/instruction'
import { DECIMALS, tokenBytes } from '../../kit/vault/vault_chain'
import { forwarded } from '../forwarder'
import { RENT_SYSVAR, type World } from './world'

/** Answers other instructions; those given stay as they are. `at`: which of them to change. */
type Mutation = (world: World, instructions: readonly VaultInstruction[], at: number) => VaultInstruction[]

const ofOne =
  (change: (world: World, instruction: VaultInstruction) => VaultInstruction): Mutation =>
  (world, instructions, at) =>
    instructions.map((one, index) => (index === at ? change(world, one) : one))

/** An account in a place of the list; only a key of the fuzzer can sign. */
function placed(world: World, address: Uint8Array, like: InstructionAccount): InstructionAccount {
  const can_sign = world.signing_keys.some((key) => toHex(key) === toHex(address))
  return { address, signer: like.signer && can_sign, writable: like.writable }
}

function withAccount(
  instruction: VaultInstruction,
  place: number,
  account: InstructionAccount,
): VaultInstruction {
  return { ...instruction, accounts: instruction.accounts.map((one, at) => (at === place ? account : one)) }
}

const someAccount = (world: World, { accounts }: VaultInstruction): number =>
  world.chance.below(accounts.length)

/** Every account worth naming in the place of another. */
function strangers(world: World): Uint8Array[] {
  const { config, tree, ring, queue, program } = world.vault
  const other = vaultAddresses(world.other_program)
  const mint = world.chance.pick(world.mints)
  const note = world.notes.length > 0 ? world.chance.pick(world.notes) : undefined
  const of_mints = [world.program, world.other_program].flatMap((vault) => [
    mintRecordAddress(vault, mint.mint),
    vaultTokenAddress(vault, mint.mint),
  ])
  const request = note === undefined ? [] : [exitRequestAddress(program, note.nullifier)]
  return [
    config,
    tree,
    ring,
    queue,
    program,
    other.config,
    other.tree,
    other.ring,
    other.queue,
    other.program,
    mint.mint,
    ...of_mints,
    ...request,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAM,
    TOKEN_2022_PROGRAM,
    RENT_SYSVAR,
    world.foreign_program,
    ...world.signing_keys,
    world.newAddress(),
  ]
}

const replace = ofOne((world, instruction) => {
  if (instruction.accounts.length === 0) return instruction
  const place = someAccount(world, instruction)
  const address = world.chance.pick(strangers(world))
  return withAccount(instruction, place, placed(world, address, instruction.accounts[place]!))
})

/** The same account of the other vault, where there is one. */
const otherVault = ofOne((world, instruction) => {
  const other = vaultAddresses(world.other_program)
  const twins = new Map([
    [toHex(world.vault.config), other.config],
    [toHex(world.vault.tree), other.tree],
    [toHex(world.vault.ring), other.ring],
    [toHex(world.vault.queue), other.queue],
    [toHex(world.vault.program), other.program],
    ...world.mints.flatMap(({ mint }): [string, Uint8Array][] => [
      [toHex(mintRecordAddress(world.program, mint)), mintRecordAddress(world.other_program, mint)],
      [toHex(vaultTokenAddress(world.program, mint)), vaultTokenAddress(world.other_program, mint)],
    ]),
  ])
  const places = instruction.accounts.flatMap(({ address }, at) => (twins.has(toHex(address)) ? [at] : []))
  if (places.length === 0) return instruction
  const all = world.chance.oneIn(4)
  const one = world.chance.pick(places)
  const accounts = instruction.accounts.map((account, at) =>
    places.includes(at) && (all || at === one)
      ? { ...account, address: twins.get(toHex(account.address))! }
      : account,
  )
  return { ...instruction, accounts }
})

/** Places of one mint filled with those of another. */
const otherMint = ofOne((world, instruction) => {
  const [from, to] = [world.chance.pick(world.mints).mint, world.chance.pick(world.mints).mint]
  const twins = new Map([
    [toHex(from), to],
    [toHex(mintRecordAddress(world.program, from)), mintRecordAddress(world.program, to)],
    [toHex(vaultTokenAddress(world.program, from)), vaultTokenAddress(world.program, to)],
  ])
  const accounts = instruction.accounts.map((account) => {
    const twin = world.chance.oneIn(4) ? undefined : twins.get(toHex(account.address))
    return twin === undefined ? account : { ...account, address: twin }
  })
  return { ...instruction, accounts }
})

const alias = ofOne((world, instruction) => {
  if (instruction.accounts.length < 2) return instruction
  const [place, from] = [someAccount(world, instruction), someAccount(world, instruction)]
  const { address } = instruction.accounts[from]!
  return withAccount(instruction, place, placed(world, address, instruction.accounts[place]!))
})
const swap = ofOne((world, instruction) => {
  if (instruction.accounts.length < 2) return instruction
  const [a, b] = [someAccount(world, instruction), someAccount(world, instruction)]
  const accounts = [...instruction.accounts]
  ;[accounts[a], accounts[b]] = [accounts[b]!, accounts[a]!]
  return { ...instruction, accounts }
})
const drop = ofOne((world, instruction) => {
  const place = world.chance.oneIn(2) ? instruction.accounts.length - 1 : someAccount(world, instruction)
  return { ...instruction, accounts: instruction.accounts.filter((_, at) => at !== place) }
})
const append = ofOne((world, instruction) => {
  const address = world.chance.pick(strangers(world))
  const account = placed(world, address, { address, signer: false, writable: world.chance.oneIn(2) })
  return { ...instruction, accounts: [...instruction.accounts, account] }
})

const clearSigner = ofOne((world, instruction) => {
  const signers = instruction.accounts.flatMap(({ signer }, at) => (signer ? [at] : []))
  if (signers.length === 0) return instruction
  const place = world.chance.pick(signers)
  return withAccount(instruction, place, { ...instruction.accounts[place]!, signer: false })
})
const clearWritable = ofOne((world, instruction) => {
  const places = instruction.accounts.flatMap(({ writable }, at) => (writable ? [at] : []))
  if (places.length === 0) return instruction
  const place = world.chance.pick(places)
  return withAccount(instruction, place, { ...instruction.accounts[place]!, writable: false })
})
/** Another key, which signs, in the place of a signer. */
const otherSigner = ofOne((world, instruction) => {
  const signers = instruction.accounts.flatMap(({ signer }, at) => (signer ? [at] : []))
  if (signers.length === 0) return instruction
  const place = world.chance.pick(signers)
  const address = world.chance.pick(world.signing_keys)
  return withAccount(instruction, place, placed(world, address, instruction.accounts[place]!))
})

/** A copy of the account under the attacker's program, now and then with a byte changed. */
const forge = ofOne((world, instruction) => {
  if (instruction.accounts.length === 0) return instruction
  const place = someAccount(world, instruction)
  const original = world.ledger.get(instruction.accounts[place]!.address)
  if (original.data.length > 20_000) return instruction
  const [address, data] = [world.newAddress(), original.data.slice()]
  if (data.length > 0 && world.chance.oneIn(2))
    data[world.chance.below(data.length)]! ^= 1 << world.chance.below(8)
  world.ledger.set(address, { owner: world.foreign_program, data, lamports: 1_000_000_000n })
  return withAccount(instruction, place, { ...instruction.accounts[place]!, address, signer: false })
})

const STATES = ['uninitialized', 'initialized', 'frozen'] as const
/** A token account of the attacker's in any state, of either token program, also with extensions. */
const forgeToken = ofOne((world, instruction) => {
  if (instruction.accounts.length === 0) return instruction
  const place = someAccount(world, instruction)
  const { mint, token_program } = world.chance.pick(world.mints)
  const owner = world.chance.pick([world.attacker, world.vault.config, ...world.traders])
  const state = world.chance.pick(STATES)
  const [amount, extension] = [
    world.chance.oneIn(2) ? 0n : 1n << 30n,
    world.chance.pick([7, 8, 11, 2, 15, 99]),
  ]
  const value = Uint8Array.of(world.chance.below(2))
  const fields = { mint, owner, state, amount }
  const extended = world.chance.oneIn(3) ? { ...fields, extensions: [{ type: extension, value }] } : fields
  const address = world.newAddress()
  const program = world.chance.oneIn(6) ? world.foreign_program : token_program
  world.ledger.set(address, { owner: program, data: tokenBytes(extended), lamports: 1_000_000_000n })
  return withAccount(instruction, place, { ...instruction.accounts[place]!, address, signer: false })
})

export const ACCOUNT_MUTATIONS: readonly Mutation[] = [
  replace,
  replace,
  replace,
  otherVault,
  otherVault,
  otherMint,
  alias,
  alias,
  swap,
  drop,
  append,
  clearSigner,
  clearSigner,
  clearWritable,
  clearWritable,
  otherSigner,
  otherSigner,
  forge,
  forge,
  forgeToken,
  forgeToken,
]

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

const repeat: Mutation = (_, instructions, at) => [...instructions, instructions[at]!]
const backwards: Mutation = (_, instructions) => [...instructions].reverse()

/** Lamports of the attacker's to any account of the vault, also to one that is still to be made. */
function sentLamports(world: World): VaultInstruction {
  const note = world.notes.length > 0 ? [world.chance.pick(world.notes)] : []
  const { config, tree, ring, queue } = world.vault
  const targets = [
    config,
    tree,
    ring,
    queue,
    mintRecordAddress(world.program, world.chance.pick(world.mints).mint),
    ...note.map(({ nullifier }) => exitRequestAddress(world.program, nullifier)),
  ]
  const amount = world.chance.pick([1_000_000n, 2_000_000n, 30_000_000n])
  return {
    program: SYSTEM_PROGRAM,
    accounts: [
      { address: world.attacker, signer: true, writable: true },
      { address: world.chance.pick(targets), signer: false, writable: true },
    ],
    data: Uint8Array.from([2, 0, 0, 0, ...u64Le(amount)]),
  }
}

/** Tokens of the attacker's given to the vault for nothing. */
function sentTokens(world: World): VaultInstruction {
  const { mint, token_program } = world.chance.pick(world.mints)
  const from = world.newToken({ mint, owner: world.attacker, amount: 1_000n }, token_program)
  return {
    program: token_program,
    accounts: [
      { address: from, signer: false, writable: true },
      { address: mint, signer: false, writable: false },
      { address: vaultTokenAddress(world.program, mint), signer: false, writable: true },
      { address: world.attacker, signer: true, writable: false },
    ],
    data: Uint8Array.from([12, ...u64Le(7n), DECIMALS]),
  }
}

const around =
  (make: (world: World) => VaultInstruction): Mutation =>
  (world, instructions) =>
    world.chance.oneIn(2) ? [make(world), ...instructions] : [...instructions, make(world)]

/** The whole through a program between the transaction and the vault. */
const inside: Mutation = (_, instructions) => instructions.map(forwarded)

export const TRANSACTION_MUTATIONS: readonly Mutation[] = [
  repeat,
  repeat,
  backwards,
  inside,
  inside,
  around(sentLamports),
  around(sentTokens),
]
