/** Everything a wallet derives from its one 32-byte seed (protocol.md "Wallet derivation and recovery"). */
import { expand, extract } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { concatBytes, u64Le, utf8 } from '../bytes'
import { reduceWide } from './poseidon'

const SALT = utf8('tacit/wallet/v1')
/** Every derived value but a key belongs to a key k and has index k * 2^32 + x. */
const KEY_STRIDE = 1n << 32n
/** Anchors of a command are derived from this many places; a part of the derivation, not a bound. */
export const ANCHORS_PER_COMMAND = 16

/** HKDF's first half by seed: a recovery derives from one seed a million times. */
const extracted = new WeakMap<Uint8Array, Uint8Array>()

function derived(seed: Uint8Array, label: string, index: bigint, width: number): Uint8Array {
  if (seed.length !== 32) throw new RangeError('a seed has 32 bytes')
  const key = extracted.get(seed) ?? extract(sha256, seed, SALT)
  extracted.set(seed, key)
  return expand(sha256, key, concatBytes(utf8(label), u64Le(index)), width)
}

function placed(k: number, x: number | bigint): bigint {
  const index = BigInt(x)
  if (index < 0n || index >= KEY_STRIDE) throw new RangeError('index is outside a key')
  return BigInt(k) * KEY_STRIDE + index
}

/** Ed25519 seed of trading key k. */
export function deriveTradingKey(seed: Uint8Array, k: number): Uint8Array {
  return derived(seed, 'trading-key', BigInt(k), 32)
}

/** Ed25519 seed of the account key, which signs credentials and belongs to no trading key. */
export function deriveAccountKey(seed: Uint8Array): Uint8Array {
  return derived(seed, 'account-key', 0n, 32)
}

/** Blinding of deposit d of key k. */
export function deriveDepositBlinding(seed: Uint8Array, k: number, d: number): Uint8Array {
  return reduceWide(derived(seed, 'deposit-blinding', placed(k, d), 48))
}

/** Anchor x of key k; command n takes x = 16n + i. */
export function deriveAnchor(seed: Uint8Array, k: number, x: number): Uint8Array {
  return reduceWide(derived(seed, 'anchor', placed(k, x), 48))
}

/** Order id of command n of key k, 16 bytes. */
export function deriveOrderId(seed: Uint8Array, k: number, n: number): Uint8Array {
  return derived(seed, 'order-id', placed(k, n), 16)
}
