/** Mutations of account lists: other accounts, other order, other flags, forged copies. */
import { toHex } from '../../../../protocol/bytes'
import {
  exitRequestAddress,
  mintRecordAddress,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  vaultAddresses,
  vaultTokenAddress,
} from '../../../../protocol/vault/addresses'
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import { tokenBytes } from '../../../kit/vault/tokens'
import { RENT_SYSVAR, type World } from '../world'
import { type Mutation, ofOne, placed, withAccount } from './mutation'

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
