/** Everything one verification rests on, so that it can be judged again later without the venue. */
import type { Collateral } from '../../protocol/collateral'
import type { Attestation, Info } from '../../protocol/wire_public'

export const BUNDLE_FORMAT = 'tacit/evidence-bundle/v1'

/** Accounts of the vault as one JSON-RPC endpoint gave them; base64 data. */
export type ChainRecord = {
  genesis_hash: string
  slot: number
  config: { owner: string; data: string }
  program: { owner: string; data: string }
  /** SHA-256 of the ELF as far as `program_bytes` of the policy, or all of it. */
  program_data: { owner: string; sha256: string; upgrade_authority: string | null }
}

export type EvidenceBundle = {
  format: typeof BUNDLE_FORMAT
  url: string
  /** When the evidence was collected, unix milliseconds; validity periods are judged at this time. */
  now_ms: number
  /** 64 hex digits. */
  nonce: string
  /** SHA-256 of the connection's TLS key, 64 hex digits; null where the platform hides it (a browser). */
  spki_sha256: string | null
  info: Info
  attestation: Attestation
  /** The files under `/evidences/`, exact text. */
  evidences: { quote_json: string; cert_pem: string; sha256sum_txt: string }
  collateral: Collateral | null
  /** Exact text of the manifest. */
  app_compose: string | null
  chain: ChainRecord | null
  /** Answer of the KMS contract for the measured compose hash; null when there is none. */
  kms_allowed: boolean | null
  /** Why collateral, chain or KMS answer stand as null although they were asked for. */
  missing: { collateral?: string; chain?: string; kms?: string }
}
