/** Makes the settings of a sandbox, with every part embedded, and the policy file that accepts only this sandbox. */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { encodeBase58 } from '../protocol/base58'
import { fromHex, toHex } from '../protocol/bytes'
import { publicKeyOf } from '../protocol/sign'
import type { Environment } from '../server/settings/config'
import { DEVELOPMENT_ONLY, MR_TD, measureBoot, PPID, XFAM } from './enclave/machine'
import { sandboxAuditor, sandboxSecrets } from './secrets'

/** Of the embedded chain's vault. */
export const EXIT_DELAY_S = 7 * 86_400
export const SOL = 'So11111111111111111111111111111111111111112'
export const USDC = 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'
export const JTO = 'jtojtomepa8beP8AuQc6eXt5FriJwfFMwQx2v2f9mCL'

const MINTS = mintsOf(USDC).concat({
  mint: JTO,
  decimals: 9,
  min_withdraw: '100000000',
  withdraw_fee: '10000000',
})
/** lot_size * tick_size is a multiple of 10^9: quote amounts are exact. */
const INSTRUMENTS = [
  solInstrument(USDC),
  {
    ...solInstrument(USDC),
    symbol: 'JTO-USDC',
    base_mint: JTO,
    lot_size: '100000000',
    tick_size: '100',
    min_amount: '1000000000',
    max_amount: '100000000000000',
    initial_reference: '2500000',
  },
]

/** Wrapped SOL and a mint of 6 decimals. */
export function mintsOf(usdc: string) {
  return [
    { mint: SOL, decimals: 9, min_withdraw: '1000000', withdraw_fee: '100000' },
    { mint: usdc, decimals: 6, min_withdraw: '1000000', withdraw_fee: '50000' },
  ]
}

/** SOL against a mint of 6 decimals. */
export function solInstrument(quote_mint: string) {
  return {
    symbol: 'SOL-USDC',
    base_mint: SOL,
    quote_mint,
    base_decimals: 9,
    quote_decimals: 6,
    lot_size: '1000000',
    tick_size: '1000',
    min_amount: '10000000',
    max_amount: '1000000000000',
    batch_slots: 5,
    collar_bps: 500,
    fee_bps: 5,
    initial_reference: '150000000',
    reference_policy: 'last',
    price_rule: 'std4',
    volume_tolerance_bps: 0,
  }
}

/** Settings of the environment win; secrets are generated in the data folder on the first start. */
export async function sandboxEnvironment(environment: Environment): Promise<Environment> {
  const data_dir = resolve(environment['TACIT_DATA_DIR'] ?? 'data')
  const secrets = sandboxSecrets(data_dir)
  const publicKey = (seed: string) => encodeBase58(publicKeyOf(fromHex(seed, 32)!))
  const defaults: Environment = {
    TACIT_LISTEN: '127.0.0.1:8443',
    TACIT_OPERATOR_LISTEN: '127.0.0.1:8444',
    TACIT_ENCLAVE: 'development',
    TACIT_SWAGGER: 'on',
    SOLANA_RPC_URL: 'embedded',
    TACIT_OPERATOR_KEY: publicKey(secrets.operator_seed),
    TACIT_AUDITOR_KEY: await sandboxAuditor(data_dir),
    TACIT_FEE_KEY: publicKey(secrets.fee_seed),
    TACIT_FEE_ANCHOR: secrets.fee_anchor,
    TACIT_MINTS: JSON.stringify(MINTS),
    TACIT_INSTRUMENTS: JSON.stringify(INSTRUMENTS),
    TACIT_LEASE_MS: '2000',
    TACIT_REOPEN_SLOTS: '2',
  }
  return { ...defaults, ...environment, TACIT_DATA_DIR: data_dir }
}

type SandboxBuild = {
  app_id: string
  compose_hash: string
  root_pem: string
  rpc_url: string
  program_id: string
  /** Of the embedded chain's vault; undefined: the chain is another, whose vault the sandbox did not open. */
  admin: Uint8Array | undefined
}

/** What firmware, kernel and command line extend; no app changes them. */
function bootRegisters() {
  const none = new Uint8Array()
  const [rtmr0, rtmr1, rtmr2] = measureBoot(none, none, none).registers.map(toHex)
  return { mrtd: toHex(MR_TD), rtmr0, rtmr1, rtmr2 }
}

/** The members of a policy by which only the imaginary machine under this root is accepted. */
export const machinePolicy = (roots_pem: string) => ({
  key_providers: [{ name: DEVELOPMENT_ONLY, id: '' }],
  xfam_mask: toHex(XFAM),
  roots_pem,
})

/**
 * The policy file that accepts this sandbox and nothing else, in the form `tacit verify --policy` reads.
 * @param root_pem path of the root's certificate
 */
export function sandboxPolicy(build: SandboxBuild): string {
  const { app_id, compose_hash, root_pem, rpc_url, program_id, admin } = build
  const policy = {
    compose_hashes: [compose_hash],
    tcb_statuses: ['UpToDate'],
    // The manifest of a sandbox runs no image, which the linter rejects: its text is not presented as a deployment's.
    permitted_skips: [
      'rpc_operators_unpinned',
      'manifest_absent',
      'keys_without_kms',
      ...(admin === undefined ? ['exit_delay_unpinned', 'admin_unpinned'] : []),
      'location_unnamed',
    ],
    app_ids: [app_id],
    ppids: [toHex(PPID)],
    registers: [bootRegisters()],
    ...machinePolicy(readFileSync(root_pem, 'utf8')),
    chain: {
      rpc_url,
      program_id,
      upgrade_authorities: [],
      pending_actions: [],
      paused_allowed: false,
      ...(admin && { exit_delay_min_s: EXIT_DELAY_S, admins: [encodeBase58(admin)] }),
    },
  }
  return `${JSON.stringify(policy, null, 2)}\n`
}
