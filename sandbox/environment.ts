/** Makes the settings and secrets of a sandbox, with every part embedded, and the policy file that accepts only this sandbox. */

import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ageRecipientOf, newAgeKey, readAgeIdentity } from '../protocol/age'
import { encodeBase58 } from '../protocol/base58'
import { fromHex, toHex } from '../protocol/bytes'
import { reduceWide } from '../protocol/notes/poseidon'
import { publicKeyOf } from '../protocol/sign'
import type { Environment } from '../server/settings/config'
import { DEVELOPMENT_ONLY, MR_TD, measureBoot, PPID, XFAM } from './enclave/machine'

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

/** Registers that firmware, kernel and command line extend; no app changes them. */
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

type SandboxSecrets = {
  /** Ed25519 seeds, hex. */
  operator_seed: string
  fee_seed: string
  /** A field element, hex. */
  fee_anchor: string
  /** Wallet seed of the demo trader, from which its account key derives; hex. */
  demo_seed: string
}
/** One file per purpose: the operator's key is handed to tools by its path. */
export const OPERATOR_KEY_FILE = 'operator.key'
/** The age identity that reads the exports of the sandbox's batches. */
export const AUDITOR_KEY_FILE = 'auditor.key'
const SECRETS_FILE = 'laptop-secrets.json'
const OTHER = 'name another folder in TACIT_DATA_DIR'

/** The data folder is unusable; the message says why and what to do. */
class SandboxRefused extends Error {
  override readonly name = 'SandboxRefused'
}

/** Reads them, or generates them readable by the owner only. @throws SandboxRefused when the folder is unusable */
export function sandboxSecrets(data_dir: string): SandboxSecrets {
  const path = join(data_dir, SECRETS_FILE)
  if (existsSync(path)) return readSecrets(path)
  // The journal holds accounts and settings made with these secrets: with others, the operator's calls would fail.
  if (existsSync(join(data_dir, 'journal')))
    throw new SandboxRefused(
      `${path} is missing, and the journal beside it needs it: put it back, or ${OTHER}`,
    )
  const made = makeSecrets()
  try {
    mkdirSync(data_dir, { recursive: true, mode: 0o700 })
    writeFileSync(join(data_dir, OPERATOR_KEY_FILE), `${made.operator_seed}\n`, { mode: 0o600 })
    writeFileSync(`${path}.new`, JSON.stringify(made, null, 2), { mode: 0o600 })
    renameSync(`${path}.new`, path)
  } catch (error) {
    const { code } = error as { code?: string }
    throw new SandboxRefused(`the data folder ${data_dir} cannot be made or written (${code}): ${OTHER}`)
  }
  return made
}

/** The recipient of the auditor's key, which is made in the data folder if it is missing. @throws SandboxRefused */
export async function sandboxAuditor(data_dir: string): Promise<string> {
  const path = join(data_dir, AUDITOR_KEY_FILE)
  if (!existsSync(path)) {
    const { file, recipient } = await newAgeKey()
    writeFileSync(path, file, { flag: 'wx', mode: 0o600 })
    return recipient
  }
  const identity = readAgeIdentity(readFileSync(path, 'utf8'))
  if (identity === undefined)
    throw new SandboxRefused(`${path} holds no age identity: put a copy back, or delete it for another key`)
  return await ageRecipientOf(identity)
}

function readSecrets(path: string): SandboxSecrets {
  try {
    const { operator_seed, fee_seed, fee_anchor, demo_seed } = JSON.parse(readFileSync(path, 'utf8'))
    if ([operator_seed, fee_seed, fee_anchor, demo_seed].every(isSeed))
      return { operator_seed, fee_seed, fee_anchor, demo_seed }
  } catch {
    // An unreadable file counts as damaged.
  }
  throw new SandboxRefused(`${path} is damaged or cannot be read: put a copy back, or ${OTHER}`)
}

const isSeed = (text: unknown) => typeof text === 'string' && fromHex(text, 32) !== undefined

function makeSecrets(): SandboxSecrets {
  return {
    operator_seed: toHex(randomBytes(32)),
    fee_seed: toHex(randomBytes(32)),
    fee_anchor: toHex(reduceWide(randomBytes(48))),
    demo_seed: toHex(randomBytes(32)),
  }
}
