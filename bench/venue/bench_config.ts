/** Derives settings, keys, traders and notes of the measured venue from names, so that every process knows them. */
import { createHash } from 'node:crypto'
import type { EngineConfig } from '../../engine/config'
import { LIMITS } from '../../engine/limits'
import type { KeysPort } from '../../engine/ports'
import { encodeBase58 } from '../../protocol/base58'
import { accountIdOf } from '../../protocol/bodies/account'
import { type SigningKey, signingKey } from '../../protocol/ed25519'

/** Bytes derived from a name. */
export function named(name: string, width = 32): Uint8Array {
  const bytes = new Uint8Array(createHash('sha512').update(`tacit bench ${name}`).digest())
  return bytes.slice(0, width)
}

export function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')
}

/** A field element derived from a name, as 64 hex digits. */
export function elementNamed(name: string): Uint8Array {
  const bytes = named(name)
  bytes[0] = bytes[0]! & 0x0f
  return bytes
}

/** A signing pair and its public key as text. */
export function pairNamed(name: string): SigningKey & { text: string } {
  const pair = signingKey(named(name))
  return { ...pair, text: encodeBase58(pair.public_key) }
}

export const MINTS = [
  { mint: named('base mint'), decimals: 9 },
  { mint: named('quote mint'), decimals: 6 },
]
export const OPERATOR_SEED = named('operator')
const OPERATOR = pairNamed('operator')
export const SYMBOL = 'SOL-USDC'
/** Trading keys over all accounts. Orders rotate through them, so that orders in flight have different keys. */
export const KEYS = 4_096
export const ACCOUNTS = 8
/** Live orders that each account may have: a share of the venue's. */
export const ORDERS_OF_ACCOUNT = 1_000_000 / ACCOUNTS
/** Lots of 0.001 with 9 decimals, ticks of 0.01 with 6 decimals, reference 100.00. */
export const LOT = 1_000_000n
export const TICK = 10_000n
export const REFERENCE_TICKS = 10_000

const ACCOUNT_IDS = Array.from({ length: ACCOUNTS }, (_, at) =>
  accountIdOf(pairNamed(`account ${at}`).public_key),
)
/** Ed25519 seed of an account key. */
export const accountSeed = (at: number) => named(`account ${at}`)
export const accountOf = (key_index: number) => ACCOUNT_IDS[key_index % ACCOUNTS]!

export function benchKeys(): KeysPort {
  return {
    journal_key: named('journal'),
    tie_break_key: named('tie break'),
    credential_key: named('credential'),
    settlement_seed: named('settlement'),
    statement_seed: named('statement'),
  }
}

export function benchConfig(data_dir: string): EngineConfig {
  const [base, quote] = MINTS.map(({ mint }) => encodeBase58(mint))
  return {
    data_dir,
    auditor_key: '',
    self_check_reasons: [],
    instruments: [
      {
        symbol: SYMBOL,
        base_mint: base!,
        quote_mint: quote!,
        base_decimals: 9,
        quote_decimals: 6,
        lot_size: String(LOT),
        tick_size: String(TICK),
        min_amount: String(LOT),
        max_amount: '1000000000000',
        batch_slots: 2,
        collar_bps: 9_000,
        fee_bps: 10,
        initial_reference: String(BigInt(REFERENCE_TICKS) * TICK),
        reference_policy: 'last',
        price_rule: 'std4',
        volume_tolerance_bps: 0,
      },
    ],
    mints: MINTS.map(({ mint, decimals }) => ({
      mint: encodeBase58(mint),
      decimals,
      min_withdraw: '1000',
      withdraw_fee: '100',
    })),
    fee_key: pairNamed('fee').text,
    fee_anchor: hexOf(elementNamed('fee anchor')),
    operator_key: OPERATOR.text,
    compose_hash: 'ab'.repeat(32),
    tacit_version: '0.1.0',
    enclave: 'development',
    token_ttl_s: 900,
    order_life_slots_max: 432_000,
    settlement_parts_max: 28,
    retention_days: 30,
    lease_ms: LIMITS.lease_ms,
    anchor_max_ms: LIMITS.anchor_max_ms,
    commit_ms: LIMITS.commit_ms,
    reopen_slots: 2,
  }
}
