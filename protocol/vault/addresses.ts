/** Derives vault addresses from a program id (Solana: program derived addresses) and names the programs the vault calls. */

import { ed25519 } from '@noble/curves/ed25519.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { decodeBase58 } from '../base58'
import { toHex, utf8 } from '../bytes'
import { ADDRESSES_KEPT_MAX } from '../limits'

/**
 * Seeds without the bump, in order. The config account is at the same time the authority of every vault
 * token account and the signer of every event, which saves two addresses in each transaction.
 */
export const CONFIG_SEEDS: readonly Uint8Array[] = [utf8('config')]

/** Note tree and spent log: roots and frontiers. */
export const TREE_SEEDS: readonly Uint8Array[] = [utf8('tree')]

/** Known states: 120 earlier states of the note tree and the spent log. */
export const RING_SEEDS: readonly Uint8Array[] = [utf8('ring')]

/** Payout queue. */
export const QUEUE_SEEDS: readonly Uint8Array[] = [utf8('queue')]

/** Record of a registered mint. `mint`: 32 bytes. */
export const mintRecordSeeds = (mint: Uint8Array): readonly Uint8Array[] => [utf8('mint'), mint]

/** Vault token account of a mint. `mint`: 32 bytes. */
export const vaultTokenSeeds = (mint: Uint8Array): readonly Uint8Array[] => [utf8('vault'), mint]

/** Open exit request of a note. `nullifier`: 32 bytes, big-endian field element. */
export const exitRequestSeeds = (nullifier: Uint8Array): readonly Uint8Array[] => [utf8('exit'), nullifier]

/** Claim of a note in a frozen vault. `nullifier`: 32 bytes, big-endian field element. */
export const escapeClaimSeeds = (nullifier: Uint8Array): readonly Uint8Array[] => [utf8('escape'), nullifier]

/** An address from base58. @throws Error when it is none */
export function address(text: string): Uint8Array {
  const bytes = decodeBase58(text, 32)
  if (bytes === undefined) throw new Error(`not an address: ${text}`)
  return bytes
}

export const SYSTEM_PROGRAM = address('11111111111111111111111111111111')
export const TOKEN_PROGRAM = address('TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA')
export const TOKEN_2022_PROGRAM = address('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb')
export const UPGRADEABLE_LOADER = address('BPFLoaderUpgradeab1e11111111111111111111111')
export const ASSOCIATED_TOKEN_PROGRAM = address('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL')
export const COMPUTE_BUDGET_PROGRAM = address('ComputeBudget111111111111111111111111111111')

const MARKER = utf8('ProgramDerivedAddress')

/** The runtime rejects a derived address that is a curve point; it decompresses by the ZIP-215 rule. */
function isOnCurve(bytes: Uint8Array): boolean {
  try {
    ed25519.Point.fromBytes(bytes, true)
    return true
  } catch {
    return false
  }
}

type DerivedAddress = { address: Uint8Array; bump: number }

const derived = new Map<string, DerivedAddress>()

/** Address and bump for seeds under a program id: the highest bump whose hash is off the curve. */
export function findAddress(seeds: readonly Uint8Array[], program_id: Uint8Array): DerivedAddress {
  const name = [program_id, ...seeds].map(toHex).join(' ')
  let found = derived.get(name)
  if (found === undefined) {
    found = derive(seeds, program_id)
    if (derived.size >= ADDRESSES_KEPT_MAX) derived.clear()
    derived.set(name, found)
  }
  return { address: found.address.slice(), bump: found.bump }
}

function derive(seeds: readonly Uint8Array[], program_id: Uint8Array): DerivedAddress {
  for (let bump = 255; bump >= 0; bump -= 1) {
    const hash = sha256.create()
    for (const seed of seeds) hash.update(seed)
    const address = hash.update(Uint8Array.of(bump)).update(program_id).update(MARKER).digest()
    if (!isOnCurve(address)) return { address, bump }
  }
  throw new Error('no bump gives an address off the curve')
}

/** The state accounts of a vault, 32 bytes each. */
export type VaultAddresses = {
  program: Uint8Array
  config: Uint8Array
  tree: Uint8Array
  ring: Uint8Array
  queue: Uint8Array
}

/** State accounts of the vault under `program_id` (32 bytes). */
export function vaultAddresses(program_id: Uint8Array): VaultAddresses {
  return {
    program: program_id,
    config: findAddress(CONFIG_SEEDS, program_id).address,
    tree: findAddress(TREE_SEEDS, program_id).address,
    ring: findAddress(RING_SEEDS, program_id).address,
    queue: findAddress(QUEUE_SEEDS, program_id).address,
  }
}

/** The account that holds the code of a program of the upgradeable loader. */
export const programDataAddress = (program_id: Uint8Array): Uint8Array =>
  findAddress([program_id], UPGRADEABLE_LOADER).address

export const mintRecordAddress = (program_id: Uint8Array, mint: Uint8Array): Uint8Array =>
  findAddress(mintRecordSeeds(mint), program_id).address

export const vaultTokenAddress = (program_id: Uint8Array, mint: Uint8Array): Uint8Array =>
  findAddress(vaultTokenSeeds(mint), program_id).address

export const exitRequestAddress = (program_id: Uint8Array, nullifier: Uint8Array): Uint8Array =>
  findAddress(exitRequestSeeds(nullifier), program_id).address

export const escapeClaimAddress = (program_id: Uint8Array, nullifier: Uint8Array): Uint8Array =>
  findAddress(escapeClaimSeeds(nullifier), program_id).address

/** The associated token account of an owner (SPL). @param token_program the mint's: SPL Token or Token-2022 */
export const associatedAccount = (
  owner: Uint8Array,
  mint: Uint8Array,
  token_program = TOKEN_PROGRAM,
): Uint8Array => findAddress([owner, token_program, mint], ASSOCIATED_TOKEN_PROGRAM).address
