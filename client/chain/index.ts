/** Collects the chain operations of a trader's program, on a node of its choice: reads, deposits, exits, claims. */

export {
  type ChainAccess,
  type ChainReader,
  chainFailure,
  openChainAccess,
  openChainReader,
  reopenChain,
  toInstruction,
} from './chain_access'
export {
  createAssociatedAccount,
  NotAVault,
  ownAccount,
  readExitRequest,
  readMintRecord,
  readVaultState,
  tokenBalance,
  type VaultState,
} from './read_vault'
export { NotSent, sendInstructions, TransactionFailed } from './send_instructions'

// Deposits; `airdrop` and `mintTo` are the faucet of a sandbox chain.

export { airdrop, type DepositTerms, deposit, mintTo } from './deposit'

// The vault's public history; `currentHistory` reads archives (Bun and Node).

export {
  type CurrentHistory,
  confirmBatches,
  currentHistory,
  type HistoryFrom,
  NodesDisagree,
} from './current_history'
export { type ReadHistoryOptions, readVaultEvents, readVaultHistory } from './read_history'

// Exits without the venue.

export { closeExit, freezeVault, payPayout, readProofs, refuseExit, requestExit } from './exit_note'

// Claims of a frozen vault; any payer may challenge a false one and pay one that is due.

export {
  challengeClaim,
  claimDueS,
  claimNote,
  payClaim,
  readClaim,
  readOpenClaims,
  redirectClaim,
} from './exit_note'
