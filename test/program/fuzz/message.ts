/**
 * Writes transactions of version 1 as bytes, without signatures: version u8 · signer counts (3) · config mask u32 ·
 * blockhash (32) · instruction count u8 · account count u8 · accounts · compute units u32 · loaded bytes u32 · per
 * instruction program u8, account count u8, data length u16 · account places and data (SIMD-0385).
 */
import { toHex } from '../../../protocol/bytes'
import type { VaultInstruction } from '../../../protocol/vault/instruction'

const VERSION_1 = 0x81
/** Compute unit limit and loaded account bytes. */
const CONFIG_MASK = 0b1100
const UNIT_LIMIT = 1_400_000
const LOADED_BYTES_MAX = 4_000_000
const TRANSACTION_BYTES_MAX = 4_096
const ACCOUNTS_MAX = 64
const SIGNERS_MAX = 12

/** An account of a whole transaction: its flags are the union of what its instructions say. */
export type Named = { address: Uint8Array; signer: boolean; writable: boolean }

/** Every account a transaction names, signers first, writable before read-only; the fee payer leads. */
export function namedAccounts(instructions: readonly VaultInstruction[], fee_payer: Uint8Array): Named[] {
  const named = new Map<string, Named>()
  const name = (address: Uint8Array, signer: boolean, writable: boolean): void => {
    const key = toHex(address)
    const known = named.get(key) ?? { address, signer: false, writable: false }
    named.set(key, {
      address,
      signer: known.signer || signer,
      writable: known.writable || writable,
    })
  }
  name(fee_payer, true, true)
  for (const { accounts, program } of instructions) {
    for (const { address, signer, writable } of accounts) name(address, signer, writable)
    name(program, false, false)
  }
  const rank = ({ signer, writable }: Named): number => (signer ? 0 : 2) + (writable ? 0 : 1)
  const [payer, ...rest] = named.values()
  return [payer!, ...rest.sort((a, b) => rank(a) - rank(b))]
}

/** Undefined when no transaction can carry the instructions. */
export function encodeTransaction(
  instructions: readonly VaultInstruction[],
  named: readonly Named[],
  blockhash: Uint8Array,
): Uint8Array | undefined {
  const signers = named.filter(({ signer }) => signer).length
  const readonly_signers = named.filter(({ signer, writable }) => signer && !writable).length
  const readonly_others = named.filter(({ signer, writable }) => !signer && !writable).length
  const payload = instructions.reduce((sum, one) => sum + 4 + one.accounts.length + one.data.length, 0)
  const size = 50 + 32 * named.length + payload + 64 * signers
  if (size > TRANSACTION_BYTES_MAX || named.length > ACCOUNTS_MAX || signers > SIGNERS_MAX) return undefined
  const places = new Map(named.map(({ address }, place) => [toHex(address), place]))
  const bytes = new Uint8Array(size)
  const view = new DataView(bytes.buffer)
  bytes.set([VERSION_1, signers, readonly_signers, readonly_others])
  view.setUint32(4, CONFIG_MASK, true)
  bytes.set(blockhash, 8)
  bytes.set([instructions.length, named.length], 40)
  let at = 42
  for (const { address } of named) {
    bytes.set(address, at)
    at += 32
  }
  view.setUint32(at, UNIT_LIMIT, true)
  view.setUint32(at + 4, LOADED_BYTES_MAX, true)
  at += 8
  for (const { program, accounts, data } of instructions) {
    bytes.set([places.get(toHex(program))!, accounts.length], at)
    view.setUint16(at + 2, data.length, true)
    at += 4
  }
  for (const { accounts, data } of instructions) {
    for (const { address } of accounts) bytes[at++] = places.get(toHex(address))!
    bytes.set(data, at)
    at += data.length
  }
  return bytes
}
