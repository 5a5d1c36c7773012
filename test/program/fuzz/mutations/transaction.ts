/** Mutations of whole transactions: repeated and mixed instructions, lamports and tokens sent along. */
import { u64Le } from '../../../../protocol/bytes'
import {
  exitRequestAddress,
  mintRecordAddress,
  SYSTEM_PROGRAM,
  vaultTokenAddress,
} from '../../../../protocol/vault/addresses'
import type { VaultInstruction } from '../../../../protocol/vault/instruction'
import { DECIMALS } from '../../../kit/vault/tokens'
import { forwarded } from '../../forwarder'
import type { World } from '../world'
import type { Mutation } from './mutation'

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
