/** Judges what ends a command that reads or writes the chain. */
import { ArchiveRejected } from '../archive/block'
import { chainFailure } from '../chain/chain_access'
import { NodesDisagree } from '../chain/current_history'
import { NotAVault } from '../chain/read_vault'
import { TransactionFailed } from '../chain/send_instructions'
import { ProofUnavailable } from '../exit/vault_proofs'
import { RecoveryIncomplete } from '../wallet/recover'
import { HistoryIncomplete } from '../wallet/vault_history'
import type { Failure } from './command'

const REFUSALS = [
  ...[TransactionFailed, ProofUnavailable, HistoryIncomplete, RecoveryIncomplete, NotAVault],
  ...[ArchiveRejected, NodesDisagree],
]

/** Code 2 for a node that does not answer, 1 for what the chain or the history refuses; undefined for any other error. */
export function judgeChain(error: Error, rpc: string): Failure | undefined {
  const { message } = error
  const failure = chainFailure(error, rpc)
  if (failure !== undefined) return { code: 2, message: failure }
  return REFUSALS.some((kind) => error instanceof kind) ? { code: 1, message } : undefined
}
