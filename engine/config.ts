/** What an operator decides: read once by `routes/_main.ts`, checked by engine/check_config.ts, never changed while running. */
import type { Instrument } from '../protocol/wire'

/** A mint the venue settles in. Amounts are decimal strings in the mint's smallest unit. */
export type MintConfig = {
  mint: string
  decimals: number
  min_withdraw: string
  /** Taken from the note on top of a withdrawal's amount; covers the venue's cost. */
  withdraw_fee: string
}

/** Who may price one instrument with `reference_policy` `oracle`. */
export type ReferenceSources = {
  symbol: string
  /** Age beyond which a price is no reference, counted from its publish time. */
  max_age_ms: number
  /** `source` is the name it signs, `key` its Ed25519 public key in base58; the newest price of any of them counts. */
  sources: { source: string; key: string }[]
}

export type EngineConfig = {
  /** Folder of the journal, snapshots and derived read models. */
  data_dir: string
  instruments: Omit<Instrument, 'status'>[]
  mints: MintConfig[]
  /** One entry for each instrument with `reference_policy` `oracle`; left out where there is none. */
  reference_sources?: ReferenceSources[]
  /** Ed25519 public key that owns the fee notes, base58. */
  fee_key: string
  /** Operator secret from which fee-note blindings derive; 64 hex digits. */
  fee_anchor: string
  /** Ed25519 public key that signs account records and operator calls, base58. */
  operator_key: string
  /** 64 hex digits of the measured manifest; written on chain with each epoch. */
  compose_hash: string
  tacit_version: string
  enclave: 'dstack' | 'development'
  token_ttl_s: number
  /** Longest life of an order in slots. */
  order_life_slots_max: number
  /** Parts one settlement batch carries: 28 in a v1 transaction, 6 in v0. */
  settlement_parts_max: number
  /** Days events, final orders and fills stay readable. */
  retention_days: number
  /** Signatures are checked on a thread of their own, for machines with a core for it; left out: where commands are run. */
  signature_thread?: boolean
  /** An empty journal may begin from the chain, where the admin has announced it there. */
  restore_from_chain?: boolean
}
