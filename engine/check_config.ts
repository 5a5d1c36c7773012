/** Checks what an operator decided, all faults at once, before anything is opened. */
import { decodeBase58 } from '../protocol/base58'
import { fromHex, isZero } from '../protocol/bytes'
import { isFieldElement } from '../protocol/field'
import { parseU64 } from '../protocol/units'
import { checkInstrumentConfig } from './check_instrument_config'
import { checkReferenceSources } from './check_reference_sources'
import type { EngineConfig, MintConfig } from './config'

/** Every fault of the configuration as a sentence that names the setting; empty when it may be used. */
export function checkConfig(config: EngineConfig): string[] {
  return [
    ...checkSettings(config),
    ...config.mints.flatMap((mint, index) => checkMint(mint, index)),
    ...repeated(config.mints.map((mint) => mint.mint)).map((mint) => `mints: ${mint} is named twice`),
    ...(config.instruments.length === 0 ? ['instruments: at least one is required'] : []),
    ...config.instruments.flatMap((instrument, index) =>
      checkInstrumentConfig(instrument, `instruments[${index}]`, config.mints),
    ),
    ...repeated(config.instruments.map((one) => one.symbol)).map(
      (symbol) => `instruments: ${symbol} is named twice`,
    ),
    ...checkReferenceSources(config),
  ]
}

function checkSettings(config: EngineConfig): string[] {
  const faults: string[] = []
  const need = (ok: boolean, fault: string) => {
    if (!ok) faults.push(fault)
  }
  const fee_anchor = fromHex(config.fee_anchor, 32)
  need(config.data_dir !== '', 'data_dir: a folder is required')
  need(decodeBase58(config.fee_key, 32) !== undefined, 'fee_key: not a base58 Ed25519 public key')
  need(
    fee_anchor !== undefined && isFieldElement(fee_anchor) && !isZero(fee_anchor),
    'fee_anchor: not 64 hex digits of a non-zero field element',
  )
  need(decodeBase58(config.operator_key, 32) !== undefined, 'operator_key: not a base58 Ed25519 public key')
  need(fromHex(config.compose_hash, 32) !== undefined, 'compose_hash: not 64 lowercase hex digits')
  need(config.tacit_version !== '', 'tacit_version: required')
  need(config.enclave === 'dstack' || config.enclave === 'development', 'enclave: dstack or development')
  need(within(config.token_ttl_s, 60, 86_400), 'token_ttl_s: 60 to 86400')
  need(within(config.order_life_slots_max, 1, 2 ** 32), 'order_life_slots_max: 1 to 2^32')
  need(within(config.settlement_parts_max, 3, 28), 'settlement_parts_max: 3 to 28')
  need(within(config.retention_days, 1, 3650), 'retention_days: 1 to 3650')
  return faults
}

function checkMint(mint: MintConfig, index: number): string[] {
  const faults: string[] = []
  if (decodeBase58(mint.mint, 32) === undefined) faults.push(`mints[${index}].mint: not a base58 address`)
  if (!within(mint.decimals, 0, 18)) faults.push(`mints[${index}].decimals: 0 to 18`)
  const min_withdraw = parseU64(mint.min_withdraw)
  if (min_withdraw === undefined || min_withdraw === 0n) {
    faults.push(`mints[${index}].min_withdraw: not a positive u64 decimal string`)
  }
  if (parseU64(mint.withdraw_fee) === undefined) {
    faults.push(`mints[${index}].withdraw_fee: not a u64 decimal string`)
  }
  return faults
}

function within(value: number, min: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max
}

function repeated(names: string[]): string[] {
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))]
}
