/** Defines the JSON shapes of the public reads: instruments, time, status, trees, settlement, identity, attestation. */
import type { FillStage } from './trading'

export type InstrumentStatus = 'active' | 'paused' | 'closed'
export type ReferencePolicy = 'last' | 'oracle'
export type PriceRule = 'std4' | 'ref'
export type Instrument = {
  symbol: string
  base_mint: string
  quote_mint: string
  base_decimals: number
  quote_decimals: number
  lot_size: string
  tick_size: string
  min_amount: string
  max_amount: string
  batch_slots: number
  collar_bps: number
  fee_bps: number
  initial_reference: string
  reference_policy: ReferencePolicy
  price_rule: PriceRule
  volume_tolerance_bps: number
  status: InstrumentStatus
}

export type TokenRequest = { api_key: string; api_secret: string; passphrase: string }
export type TokenResponse = {
  access_token: string
  token_type: 'Bearer'
  expires_in: number
  account_id: string
}
export type ServerTime = { slot: number; unix_ms: number; slot_ms: number }
export type SystemStatus = {
  ready: boolean
  matching: 'running' | 'paused' | 'stopped'
  settlement: 'wired' | 'degraded' | 'unwired'
  chain: { slot: number; lag_ms: number; genesis_hash: string }
  enclave: 'dstack' | 'development'
  draining: boolean
  reasons: string[]
}
export type TreeRoot = { root: string; leaf_count: number; depth: number; slot: number; batch_id: number }
export type TreeInclusion = {
  commitment: string
  leaf_index: number
  siblings: string[]
  root: string
  leaf_count: number
  usable: boolean
}
export type TreeLeaves = { from: number; leaves: string[]; root: string; leaf_count: number }
export type SettlementHealth = {
  status: 'wired' | 'degraded' | 'unwired'
  last_batch: number
  last_signature: string | null
  last_slot: number | null
}
export type SettlementBatchStage = { batch: number; signature: string; slot: number; stage: FillStage }
export type Transparency = {
  mints: {
    mint: string
    decimals: number
    vault: string
    vault_balance: string
    outstanding: string
    freezable: boolean
    min_deposit: string
    min_withdraw: string
    min_exit: string
    withdraw_fee: string
    slot: number
    stale: boolean
  }[]
  tree: { root: string; leaf_count: number; spent_root: string; spent_count: number }
  settlement: {
    signer: string
    epoch: number
    generation: number
    last_batch: number
    last_signature: string | null
  }
  admin: { pending: { action: string; effective_unix_s: number; value: string }[] }
  builds: { compose_hash: string; tacit_version: string; from_slot: number }[]
  statistics: { days: { day: string; symbol: string; fills: number | null; volume: string | null }[] }
}
export type Info = {
  app_id: string
  instance_id: string
  compose_hash: string
  tee_pubkey: string
  tacit_version: string
  venue: string
  config_account: string
  program_id: string
  genesis_hash: string
  generation: number
  epoch: number
  exit_delay_s: number
}
export type Attestation = {
  quote: string
  event_log: string
  report_data: string
  vm_config: string
  tee_pubkey: string
  /** `development`: a simulated enclave, whose quotes prove nothing under Intel's root. Version 0.1.0 states none. */
  enclave: 'dstack' | 'development'
  binding: {
    body: string
    signature: string
    certificate: string
    certificate_signature: string
    statement_key: string
  }
}
