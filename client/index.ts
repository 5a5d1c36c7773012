/**
 * Collects everything a trader's program imports from the client, grouped by subject.
 *
 * `connect`, wallet files and archives need Bun, Node or Deno. The rest also runs in a browser: a bundler drops the parts that
 * are not imported. `tacit/verify` needs no platform; `tacit/chain` reads and sends on the chain.
 */

// Verification: connects to a venue, or judges evidence and receipts without one.

export { connect } from './connect'
export { type ConnectOptions, VerificationFailed, type VerifiedVenue } from './verified_venue'
export * from './verify/index'

// Calls and events; requests and answers have the names of the wire.

export type { RefusalCode } from '../protocol/refusals'
export type * from '../protocol/wire/trading'
export { type EventStream, type EventStreamHandlers, EventsMissing, followEvents } from './api/event_stream'
export { type Login, type Transport, VenueClient, VenueProblem, WrongAccount } from './api/venue_client'

// Sessions: all of it in one, with durable requests; and exact money as people write it.

export { MustStop, TacitError } from '../protocol/tacit_error'
export { OtherVenue, type SessionVenue } from './session/live_venue'
export { Session } from './session/session'
export {
  NoNote,
  SessionEnded,
  type SessionOptions,
  type SessionOrder,
  type SessionWithdrawal,
} from './session/session_options'
export type { Outcome } from './session/settle'
export {
  formatAmount,
  formatPrice,
  InexactValue,
  parseAmount,
  parseOrderAmount,
  parsePrice,
} from './session/units'

// The wallet: one seed, its notes and its open orders, kept in a file (Bun and Node).

export { type KeptReceipt, ReceiptFile } from './wallet/receipt_file'
export {
  NotSeedWords,
  type Signer,
  seedOfWords,
  seedSigner,
  Wallet,
  type WalletNote,
  type WalletOrder,
  type WalletPayment,
  type WalletState,
  wordsOfSeed,
} from './wallet/wallet'
export {
  loadWallet,
  NotAWallet,
  openWalletFile,
  type SaveOptions,
  saveWallet,
  WalletChanged,
  WalletLocked,
  type WalletStore,
} from './wallet/wallet_file'
export { InUse, NotWritten } from './whole_file'

// Commands: signed requests, their bytes for receipts, and the release of notes after a rejection.

export {
  collateralOf,
  commandBytes,
  dropRefused,
  dropRefusedPayment,
  type OrderTerms,
  prepareCancel,
  prepareCancelAll,
  prepareDeadMan,
  prepareModify,
  preparePlace,
  prepareReshape,
  prepareWithdrawal,
  type SentCommand,
} from './wallet/prepare'

// Accounts: the login belongs to the account key, which derives from the seed.

export { deriveAccountKey } from '../protocol/notes/derive'
export { type CredentialTerms, newCredential, prepareRebind, revokeCredential } from './wallet/account'

// Absorbing: account events, and the facts of the chain and the venue that no event carries.

export {
  absorbEvent,
  absorbFrozen,
  absorbRecovered,
  absorbRestored,
  adoptRefunds,
  alignCounters,
  type FindLeaf,
  joinVenue,
  markSpent,
  nullifierOfNote,
  WalletMismatch,
  WalletOfOtherVault,
  WalletOutdated,
} from './wallet/absorb'

// Recovery: every note of a seed from the vault's public history, which `tacit/chain` reads.

export { ArchiveRejected } from './archive/archive'
export { GAP_LIMITS } from './limits'
export { type GapLimits, RecoveryIncomplete, recoverWallet } from './wallet/recover'
export {
  HistoryIncomplete,
  leafFinder,
  type VaultExit,
  type VaultHistory,
  vaultHistory,
} from './wallet/vault_history'

// Exits without the venue: proofs from public history and prepared instructions; `tacit/chain` sends them.

export {
  type ExitRequestTerms,
  ProofUnavailable,
  prepareExitRequest,
  VaultProofs,
} from './exit/prepare_exit'

// Audit: note tree, spent log and payout queue of a vault rebuilt from its events.

export { auditChain, type ChainAudit, type QueueAudit, type RootAudit } from './audit/chain_audit'
