/** What a client demands of a venue. Nothing is assumed: a list that names nothing allows nothing. */
import type { CheckName } from './transcript'

/** Intel's TCB statuses a policy may allow; `Revoked` never is. Best first. */
export const TCB_STATUSES = [
  'UpToDate',
  'SWHardeningNeeded',
  'ConfigurationNeeded',
  'ConfigurationAndSWHardeningNeeded',
  'OutOfDate',
  'OutOfDateConfigurationNeeded',
] as const
export type AllowedTcbStatus = (typeof TCB_STATUSES)[number]

/** Announced changes of the vault: `settlement.md` "Keys and administration". */
export const PENDING_ACTIONS = ['rotate_signer', 'set_admin', 'authorize_restore'] as const
export type PendingAction = (typeof PENDING_ACTIONS)[number]

/** One OS image on one machine shape, 96 hex digits each: from `dstack-mr measure`. */
export type RegisterTuple = { mrtd: string; rtmr0: string; rtmr1: string; rtmr2: string }

export type ChainPolicy = {
  /** JSON-RPC endpoint the client itself trusts; never the venue's. */
  rpc_url: string
  /** Base58 address of the vault program. */
  program_id: string
  /** Base58; when given, the vault must live on this cluster. */
  genesis_hash?: string
  /** 64 hex digits: SHA-256 of the program's ELF file. */
  program_sha256?: string
  /** Length of that file: the chain pads a program with zeros. */
  program_bytes?: number
  /** Base58 keys that may hold the right to upgrade; none named, none may. */
  upgrade_authorities: string[]
  /** Announced changes that are acceptable. */
  pending_actions: PendingAction[]
  /** A paused vault takes no deposits and settles nothing. */
  paused_allowed: boolean
}

/** The contract that decides which builds get the app's keys (dstack `DstackApp`). */
export type KmsPolicy = {
  /** Ethereum JSON-RPC endpoint the client itself trusts. The contract's address is the app id. */
  rpc_url: string
}

export type VerificationPolicy = {
  /** 64 hex digits each: the builds that are acceptable. */
  compose_hashes: string[]
  tcb_statuses: AllowedTcbStatus[]
  /** Intel advisories that are tolerated, `INTEL-SA-…`. */
  advisories: string[]
  /** Lowest acceptable `tcbEvaluationDataNumber` of TCB info and QE identity. */
  tcb_evaluation_min: number
  /** 64 hex digits each: OS images recomputed from the machine's own description. */
  os_image_hashes: string[]
  /** OS images that cannot be recomputed. */
  registers: RegisterTuple[]
  /** Environment names the manifest may list. */
  environment_names: string[]
  /** Checks that may be skipped; any other skip refuses the venue. */
  permitted_skips: CheckName[]
  /** PEM certificates that replace Intel's root: development only. */
  roots_pem?: string
  /** 32 hex digits each: the physical machines that are acceptable. */
  ppids?: string[]
  /** Base URL of Intel's PCS or a cache of it; what it answers is authenticated by signature. */
  collateral_url?: string
  chain?: ChainPolicy
  kms?: KmsPolicy
}
