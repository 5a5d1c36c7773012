/** Defines the operator's configuration and validates it before anything is opened. */
import { decodeBase58 } from '../protocol/base58'
import { isSourceName } from '../protocol/bodies/signed_calls'
import { fromHex, isZero } from '../protocol/bytes'
import { MINT_DECIMALS_MAX } from '../protocol/limits'
import { isFieldElement } from '../protocol/notes/poseidon'
import { parseU64, U64_MAX } from '../protocol/units'
import type { Instrument } from '../protocol/wire/trading'
import { LIMITS } from './limits'
import { TICK_MAX } from './machine/book/book'

/** Read once by `server/main.ts` and constant while the process runs. */
export type EngineConfig = {
  /** Folder of the journal, snapshots and derived read models. */
  data_dir: string
  instruments: InstrumentConfig[]
  mints: MintConfig[]
  /** One entry for each instrument with `reference_policy` `oracle`; absent when there is none. */
  reference_sources?: ReferenceSources[]
  /** Ed25519 public key that owns the fee notes, base58. */
  fee_key: string
  /** Operator secret from which fee-note blindings derive; 64 hex digits. */
  fee_anchor: string
  /** Ed25519 public key that signs account records and operator calls, base58. */
  operator_key: string
  /** age recipient that every export of a batch is encrypted to; empty for none. */
  auditor_key: string
  /** 64 hex digits of the measured manifest; written on chain with each epoch. */
  compose_hash: string
  tacit_version: string
  enclave: 'dstack' | 'development'
  /** Reasons for which clients reject this machine; one of them bars the opening of an epoch. */
  self_check_reasons: readonly string[]
  token_ttl_s: number
  /** Longest life of an order in slots. */
  order_life_slots_max: number
  /** Parts of one settlement batch: at most 28. */
  settlement_parts_max: number
  /** Days events, final orders and fills stay readable. */
  retention_days: number
  /** Life of the right to acknowledge, from the newest view of the own epoch on chain. */
  lease_ms: number
  /** Age of an acknowledged record that no confirmed position covers beyond which nothing more is acknowledged. */
  anchor_max_ms: number
  /** Time in which the close of a batch lands on chain, otherwise the batch is void. */
  commit_ms: number
  /** Slots without new orders after the chain stalled. */
  reopen_slots: number
  /** The log that several nodes share; absent for a venue on one machine. */
  cluster?: ClusterConfig
}

type ClusterConfig = {
  /** Client URLs of the members of etcd. */
  endpoints: string[]
  /** PEM: the authority of the members, and the certificate that they know the nodes by. */
  tls: { ca: string; cert: string; key: string }
  /** Where the other nodes reach this one; empty: it answers no links. */
  url?: string
}

/** Terms that hold against the host; literals of the measured manifest. */
type Terms = Pick<EngineConfig, 'lease_ms' | 'anchor_max_ms' | 'commit_ms' | 'reopen_slots'>

type InstrumentConfig = Omit<Instrument, 'status'>

/** A mint the venue settles in. Amounts are decimal strings in the mint's smallest unit. */
type MintConfig = {
  mint: string
  decimals: number
  min_withdraw: string
  /** Charged to the note on top of a withdrawal's amount; covers the venue's cost. */
  withdraw_fee: string
}

/** The sources that may price one instrument with `reference_policy` `oracle`; the newest price of any of them counts. */
export type ReferenceSources = {
  symbol: string
  /** Maximum age of a price, counted from its publish time. */
  max_age_ms: number
  /** `source` is the name covered by the signature, `key` its Ed25519 public key in base58. */
  sources: { source: string; key: string }[]
}

/** Every error of the configuration as a sentence that names the setting; empty when the configuration is valid. */
export function checkConfig(config: EngineConfig): string[] {
  return [
    ...checkSettings(config),
    ...config.mints.flatMap((mint, index) => checkMint(mint, `mints[${index}].`)),
    ...repeated(config.mints.map((mint) => mint.mint)).map((mint) => `mints: ${mint} is named twice`),
    ...config.instruments.flatMap((instrument, index) =>
      checkInstrument(instrument, `instruments[${index}].`, config.mints),
    ),
    ...repeated(config.instruments.map((one) => one.symbol)).map(
      (symbol) => `instruments: ${symbol} is named twice`,
    ),
    ...checkReferenceSources(config),
    ...checkSchedule(config),
  ]
}

function checkSettings(config: EngineConfig): string[] {
  const { errors, need } = collectErrors('')
  type Ranged = 'token_ttl_s' | 'settlement_parts_max' | 'retention_days' | keyof Terms
  const needWithin = (name: Ranged, min: number, max: number) =>
    need(isWithin(config[name], min, max), `${name}: ${min} to ${max}`)
  const fee_anchor = fromHex(config.fee_anchor, 32)
  need(
    isWithin(config.instruments.length, 1, LIMITS.instruments_max),
    `instruments: 1 to ${LIMITS.instruments_max} are required`,
  )
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
  needWithin('token_ttl_s', LIMITS.token_ttl_min_s, LIMITS.token_ttl_max_s)
  need(
    isWithin(config.order_life_slots_max, 1, LIMITS.order_life_setting_slots_max),
    'order_life_slots_max: 1 to 2^32',
  )
  needWithin('settlement_parts_max', LIMITS.settlement_parts_min, LIMITS.settlement_parts_max)
  needWithin('retention_days', 1, LIMITS.retention_setting_days_max)
  // No lease is waited for between nodes, so two copies of a cluster may acknowledge for so long.
  const lease_max_ms = config.cluster === undefined ? LIMITS.lease_max_ms : LIMITS.cluster_lease_max_ms
  needWithin('lease_ms', LIMITS.lease_min_ms, lease_max_ms)
  needWithin('anchor_max_ms', LIMITS.anchor_max_min_ms, LIMITS.anchor_max_max_ms)
  needWithin('commit_ms', LIMITS.commit_min_ms, LIMITS.commit_max_ms)
  needWithin('reopen_slots', 1, LIMITS.reopen_slots_max)
  return errors
}

/** All instruments close at the same slots, so a close does not show which of them had orders. */
function checkSchedule({ instruments: [first, ...others] }: EngineConfig): string[] {
  return others.flatMap(({ symbol, batch_slots }) =>
    batch_slots === first!.batch_slots
      ? []
      : [`instruments: batch_slots of ${symbol} differ from the others'`],
  )
}

function checkMint(mint: MintConfig, at: string): string[] {
  const { errors, need } = collectErrors(at)
  need(decodeBase58(mint.mint, 32) !== undefined, 'mint: not a base58 address')
  need(isWithin(mint.decimals, 0, MINT_DECIMALS_MAX), `decimals: 0 to ${MINT_DECIMALS_MAX}`)
  need((parseU64(mint.min_withdraw) ?? 0n) > 0n, 'min_withdraw: not a positive u64 decimal string')
  need(parseU64(mint.withdraw_fee) !== undefined, 'withdraw_fee: not a u64 decimal string')
  return errors
}

/** The load rules of an instrument (protocol.md "Instruments and exact arithmetic"): a valid one computes exactly. */
function checkInstrument(one: InstrumentConfig, at: string, mints: MintConfig[]): string[] {
  const { errors, need } = collectErrors(at)
  need(/^[A-Z0-9-]{1,16}$/.test(one.symbol), 'symbol: 1 to 16 characters of A-Z 0-9 -')
  need(one.base_mint !== one.quote_mint, 'quote_mint: equals base_mint')
  need(
    decimalsOf(one.base_mint, mints) === one.base_decimals,
    'base_mint: not a configured mint of base_decimals',
  )
  need(
    decimalsOf(one.quote_mint, mints) === one.quote_decimals,
    'quote_mint: not a configured mint of quote_decimals',
  )
  need(isWithin(one.batch_slots, 1, LIMITS.batch_slots_max), `batch_slots: 1 to ${LIMITS.batch_slots_max}`)
  need(isWithin(one.collar_bps, 1, 9_999), 'collar_bps: 1 to 9999')
  need(isWithin(one.fee_bps, 0, LIMITS.fee_bps_max), `fee_bps: 0 to ${LIMITS.fee_bps_max}`)
  need(isWithin(one.volume_tolerance_bps, 0, 9_999), 'volume_tolerance_bps: 0 to 9999')
  need(
    one.reference_policy === 'last' || one.reference_policy === 'oracle',
    'reference_policy: last or oracle',
  )
  need(one.price_rule === 'std4' || one.price_rule === 'ref', 'price_rule: std4 or ref')
  need(
    one.price_rule !== 'ref' || one.reference_policy === 'oracle',
    'price_rule: ref needs reference_policy oracle',
  )
  return [...errors, ...checkArithmetic(one, at)]
}

function checkArithmetic(one: InstrumentConfig, at: string): string[] {
  const { errors, need } = collectErrors(at)
  const positive = (name: 'lot_size' | 'tick_size' | 'min_amount' | 'max_amount' | 'initial_reference') => {
    const value = parseU64(one[name]) ?? 0n
    need(value > 0n, `${name}: not a positive u64 decimal string`)
    return value
  }
  const lot = positive('lot_size')
  const tick = positive('tick_size')
  const min = positive('min_amount')
  const max = positive('max_amount')
  const reference = positive('initial_reference')
  if (errors.length > 0 || !isWithin(one.base_decimals, 0, MINT_DECIMALS_MAX)) return errors
  need(
    (lot * tick) % 10n ** BigInt(one.base_decimals) === 0n,
    'tick_size: lot_size * tick_size is not a multiple of 10^base_decimals',
  )
  need(min % lot === 0n && max % lot === 0n, 'min_amount: limits are not multiples of lot_size')
  need(min <= max, 'max_amount: below min_amount')
  need(reference % tick === 0n, 'initial_reference: not a multiple of tick_size')
  need(reference / tick <= BigInt(TICK_MAX), 'initial_reference: exceeds the highest tick of the book')
  need(
    (max / lot) * BigInt(LIMITS.orders_live_max) < 2n ** 53n,
    'max_amount: side totals could exceed 2^53 lots',
  )
  need(
    (max * reference) / 10n ** BigInt(one.base_decimals) <= U64_MAX,
    'max_amount: its value at initial_reference exceeds u64',
  )
  return errors
}

/** Each oracle instrument has one entry of named sources with distinct keys; other instruments have none. */
function checkReferenceSources({ instruments, reference_sources = [] }: EngineConfig): string[] {
  const errors = reference_sources.flatMap((one, index) => checkSources(one, `reference_sources[${index}].`))
  for (const { symbol, reference_policy } of instruments) {
    const entries = reference_sources.filter((one) => one.symbol === symbol).length
    if (reference_policy === 'oracle' && entries === 0)
      errors.push(`reference_sources: ${symbol} has reference_policy oracle and names no source`)
    if (reference_policy !== 'oracle' && entries > 0)
      errors.push(`reference_sources: ${symbol} has no reference_policy oracle`)
    if (entries > 1) errors.push(`reference_sources: ${symbol} is named twice`)
  }
  for (const { symbol } of reference_sources)
    if (!instruments.some((one) => one.symbol === symbol))
      errors.push(`reference_sources: ${symbol} is not an instrument`)
  return errors
}

function checkSources({ max_age_ms, sources }: ReferenceSources, at: string): string[] {
  const { errors, need } = collectErrors(at)
  const { oracle_age_min_ms: min, oracle_age_max_ms: max } = LIMITS
  const names = sources.map(({ source }) => source)
  const keys = sources.map(({ key }) => key)
  need(isWithin(max_age_ms, min, max), `max_age_ms: ${min} to ${max}`)
  need(sources.length > 0, 'sources: at least one is required')
  need(names.every(isSourceName), 'sources: a name is 1 to 16 characters of a-z 0-9 -')
  need(
    keys.every((key) => decodeBase58(key, 32) !== undefined),
    'sources: a key is not a base58 Ed25519 public key',
  )
  need(repeated(names).length === 0, 'sources: a name is used twice')
  need(repeated(keys).length === 0, 'sources: a key is used twice')
  return errors
}

/** Collects the message of each failed condition, prefixed with the path of the settings it is about. */
function collectErrors(at: string) {
  const errors: string[] = []
  const need = (ok: boolean, error: string) => {
    if (!ok) errors.push(at + error)
  }
  return { errors, need }
}

function isWithin(value: number, min: number, max: number): boolean {
  return Number.isSafeInteger(value) && value >= min && value <= max
}

function decimalsOf(mint: string, mints: MintConfig[]): number | undefined {
  return mints.find((known) => known.mint === mint)?.decimals
}

function repeated(names: string[]): string[] {
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))]
}
