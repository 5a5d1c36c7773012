/** Defines the schemas of login, status, time, instruments, identity, attestation, settlement and transparency. */

import { MINT_DECIMALS_MAX } from '../../protocol/limits'
import { API_KEY_LENGTH_MAX, SECRET_LENGTH_MAX } from '../limits'
import {
  Address,
  Bytes,
  Count,
  exact,
  Hash,
  Integer,
  Milliseconds,
  PublicKey,
  Signature,
  Slot,
  SymbolName,
  TransactionSignature,
  t,
  U64,
} from './wire'

export const Decimals = Integer(0, MINT_DECIMALS_MAX)
const text = (description: string) => t.String({ description })
const Settlement = t.Union([t.Literal('wired'), t.Literal('degraded'), t.Literal('unwired')])

export const TokenRequest = exact({
  api_key: t.String({ minLength: 1, maxLength: API_KEY_LENGTH_MAX }),
  api_secret: t.String({ minLength: 1, maxLength: SECRET_LENGTH_MAX }),
  passphrase: t.String({ minLength: 1, maxLength: SECRET_LENGTH_MAX }),
})
export const TokenResponse = exact({
  access_token: text('Opaque bearer token.'),
  token_type: t.Literal('Bearer'),
  expires_in: Count,
  account_id: text('Stable identifier of the account.'),
})
export const Health = exact({ status: t.Literal('ok'), uptime_ms: Milliseconds })
export const SystemStatus = exact({
  ready: t.Boolean(),
  matching: t.Union([t.Literal('running'), t.Literal('paused'), t.Literal('stopped')]),
  settlement: Settlement,
  chain: exact({ slot: Slot, lag_ms: Milliseconds, genesis_hash: Address }),
  enclave: t.Union([t.Literal('dstack'), t.Literal('development')]),
  draining: t.Boolean(),
  reasons: t.Array(t.String()),
})
export const ServerTime = exact({
  slot: Slot,
  unix_ms: Milliseconds,
  slot_ms: t.Number({ minimum: 0, description: 'Measured milliseconds per slot.' }),
})
export const Instrument = exact({
  symbol: SymbolName,
  base_mint: Address,
  quote_mint: Address,
  base_decimals: Decimals,
  quote_decimals: Decimals,
  lot_size: U64,
  tick_size: U64,
  min_amount: U64,
  max_amount: U64,
  batch_slots: Count,
  collar_bps: Count,
  fee_bps: Count,
  initial_reference: U64,
  reference_policy: t.Union([t.Literal('last'), t.Literal('oracle')]),
  price_rule: t.Union([t.Literal('std4'), t.Literal('ref')]),
  volume_tolerance_bps: Count,
  status: t.Union([t.Literal('active'), t.Literal('paused'), t.Literal('closed')]),
})
export const Info = exact({
  app_id: text('Id derived from the deployer and the compose configuration.'),
  instance_id: text('Identifier of this VM instance.'),
  compose_hash: Hash,
  tee_pubkey: PublicKey,
  tacit_version: text('Build version of the engine.'),
  venue: Hash,
  config_account: Address,
  program_id: Address,
  genesis_hash: Address,
  generation: Count,
  epoch: Count,
  exit_delay_s: Count,
})
export const Attestation = exact({
  quote: Bytes,
  event_log: text("The guest agent's boot event log, unchanged."),
  report_data: Bytes,
  vm_config: text("The guest agent's hardware configuration, unchanged."),
  tee_pubkey: PublicKey,
  enclave: t.Union([t.Literal('dstack'), t.Literal('development')], {
    description:
      '`development`: a simulated enclave; a verifier rejects it unless its policy names the root.',
  }),
  binding: exact({
    body: Bytes,
    signature: Signature,
    certificate: Bytes,
    certificate_signature: Signature,
    statement_key: PublicKey,
  }),
})
export const SettlementHealth = exact({
  status: Settlement,
  last_batch: Count,
  last_signature: t.Union([TransactionSignature, t.Null()]),
  last_slot: t.Union([Slot, t.Null()]),
})
export const Transparency = exact({
  mints: t.Array(
    exact({
      mint: Address,
      decimals: Decimals,
      vault: Address,
      vault_balance: U64,
      outstanding: U64,
      freezable: t.Boolean(),
      min_deposit: U64,
      min_withdraw: U64,
      min_exit: U64,
      withdraw_fee: U64,
      slot: Slot,
      stale: t.Boolean({ description: 'The figures could not be refreshed; they are unknown, not zero.' }),
    }),
  ),
  tree: exact({ root: Hash, leaf_count: Count, spent_root: Hash, spent_count: Count }),
  settlement: exact({
    signer: PublicKey,
    epoch: Count,
    generation: Count,
    last_batch: Count,
    last_signature: t.Union([TransactionSignature, t.Null()]),
  }),
  admin: exact({
    pending: t.Array(exact({ action: t.String(), effective_unix_s: Count, value: t.String() })),
  }),
  builds: t.Array(exact({ compose_hash: Hash, tacit_version: t.String(), from_slot: Slot })),
  statistics: exact({
    days: t.Array(
      exact({
        day: t.String({ pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' }),
        symbol: SymbolName,
        fills: t.Union([Count, t.Null()]),
        volume: t.Union([U64, t.Null()]),
      }),
    ),
  }),
})
