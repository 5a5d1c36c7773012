/** Owns the derivation of vault addresses from a program id (Solana: program derived addresses). */
import { ed25519 } from '@noble/curves/ed25519.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { toHex } from '../bytes'
import {
  CONFIG_SEEDS,
  escapeRecordSeeds,
  exitRequestSeeds,
  mintRecordSeeds,
  RING_SEEDS,
  TREE_SEEDS,
  vaultTokenSeeds,
} from './seeds'

const MARKER = new TextEncoder().encode('ProgramDerivedAddress')

/** The runtime refuses a derived address that is a curve point; it decompresses by the ZIP-215 rule. */
function isOnCurve(bytes: Uint8Array): boolean {
  try {
    ed25519.Point.fromBytes(bytes, true)
    return true
  } catch {
    return false
  }
}

export type DerivedAddress = { address: Uint8Array; bump: number }

/** Derivations cost curve arithmetic and repeat with every instruction, so the recent ones are kept. */
const DERIVED_MAX = 1_024
const derived = new Map<string, DerivedAddress>()

/** Address and bump for seeds under a program id: the highest bump whose hash is off the curve. */
export function findAddress(seeds: readonly Uint8Array[], program_id: Uint8Array): DerivedAddress {
  const name = [program_id, ...seeds].map(toHex).join(' ')
  let found = derived.get(name)
  if (found === undefined) {
    found = derive(seeds, program_id)
    if (derived.size >= DERIVED_MAX) derived.clear()
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

/** The three state accounts of a vault, 32 bytes each. */
export type VaultAddresses = { program: Uint8Array; config: Uint8Array; tree: Uint8Array; ring: Uint8Array }

/** State accounts of the vault under `program_id` (32 bytes). */
export function vaultAddresses(program_id: Uint8Array): VaultAddresses {
  return {
    program: program_id,
    config: findAddress(CONFIG_SEEDS, program_id).address,
    tree: findAddress(TREE_SEEDS, program_id).address,
    ring: findAddress(RING_SEEDS, program_id).address,
  }
}

export const mintRecordAddress = (program_id: Uint8Array, mint: Uint8Array): Uint8Array =>
  findAddress(mintRecordSeeds(mint), program_id).address

export const vaultTokenAddress = (program_id: Uint8Array, mint: Uint8Array): Uint8Array =>
  findAddress(vaultTokenSeeds(mint), program_id).address

export const exitRequestAddress = (program_id: Uint8Array, nullifier: Uint8Array): Uint8Array =>
  findAddress(exitRequestSeeds(nullifier), program_id).address

export const escapeRecordAddress = (program_id: Uint8Array, nullifier: Uint8Array): Uint8Array =>
  findAddress(escapeRecordSeeds(nullifier), program_id).address
