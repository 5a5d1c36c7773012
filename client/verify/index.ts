/**
 * Collects the portable half of the client, `tacit/verify`: judges evidence and receipts in Bun, Node and browsers.
 * It needs WebCrypto with Ed25519, and `fetch` where evidence is collected.
 */

// Evidence, collected over plain `fetch`, which neither shows nor pins the TLS key of the connection.

export type { Collateral } from '../../protocol/tdx/collateral'
export {
  type AskingTransport,
  collectEvidence,
  EvidenceUnavailable,
  fetchTransport,
} from './collect/collect_evidence'
export { type ChainRecord, type EvidenceBundle, parseBundle } from './evidence_bundle'

// The policy: the venues that a client accepts.

export {
  BARE_POLICY,
  type ChainPolicy,
  type KmsPolicy,
  type LocationAuthority,
  type PendingAction,
  parsePolicy,
  type VerificationPolicy,
} from './policy'

// The judgement, check by check.

export { judgeEvidence } from './judge_evidence'
export { SKIP_REASONS, type SkipReason } from './policy'
export {
  CHECKS,
  type Check,
  type CheckName,
  type CheckResult,
  isAccepted,
  Refused,
  type Transcript,
  transcriptText,
  type Verdict,
} from './transcript'

// Receipts: the venue's signed statement that a command is in its journal.

export {
  certificateOf,
  identityOf,
  type ReceiptProof,
  ReceiptRefused,
  type StatementCertificate,
  StatisticsRefused,
  type VenueIdentity,
  verifyReceipt,
  verifyReceiptOnChain,
  verifyReceiptProof,
  verifyStatistics,
} from './verify_receipt'
