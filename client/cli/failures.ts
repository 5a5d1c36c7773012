/** Explains why a command ended, and its exit code. */
import { VenueProblem, WrongAccount } from '../api/venue_client'
import { ArchiveRejected } from '../archive/archive'
import { chainFailure } from '../chain/chain_access'
import { NodesDisagree } from '../chain/current_history'
import { NotAVault } from '../chain/read_vault'
import { TransactionFailed } from '../chain/send_instructions'
import { ProofUnavailable } from '../exit/prepare_exit'
import { OtherVenue } from '../session/live_venue'
import { NoNote, SessionEnded } from '../session/session_options'
import { InexactValue } from '../session/units'
import { VerificationFailed } from '../verified_venue'
import { EvidenceUnavailable } from '../verify/collect/collect_evidence'
import { Refused } from '../verify/transcript'
import { ReceiptRefused, StatisticsRefused } from '../verify/verify_receipt'
import { WalletOfOtherVault, WalletOutdated } from '../wallet/absorb'
import { RecoveryIncomplete } from '../wallet/recover'
import { HistoryIncomplete } from '../wallet/vault_history'
import { NotSeedWords } from '../wallet/wallet'
import { NotAWallet, WalletChanged, WalletLocked } from '../wallet/wallet_file'
import { InUse } from '../whole_file'
import type { Failure } from './command'

export const CODES = `exit code: 0 done, 1 refused, 2 still open, 3 no answer, 4 another venue, 64 usage or input, 74 a file or folder fails, 130 Ctrl-C
  1: by venue, chain or a check, or not covered by the notes. 2: 'tacit settle' asks again. 3: of venue or node. 4: it is not the
  venue that the policy accepts, and nothing was sent.`

type Kind = abstract new (...args: never[]) => Error
const isOneOf = (error: Error, kinds: readonly Kind[]): boolean => kinds.some((kind) => error instanceof kind)

const REFUSALS = [
  ...[TransactionFailed, ProofUnavailable, HistoryIncomplete, RecoveryIncomplete, NotAVault],
  ...[ArchiveRejected, NodesDisagree, ReceiptRefused, StatisticsRefused, WalletOutdated],
]
const INPUTS = [
  ...[Refused, RangeError, NotAWallet, WalletLocked, WalletChanged],
  ...[InUse, WrongAccount, NotSeedWords, InexactValue, WalletOfOtherVault],
]

/** @param rpc the node that was asked. @returns undefined for an error that no command expects */
export function judge(error: Error, rpc = 'the node'): Failure | undefined {
  const { message } = error
  if (error instanceof VerificationFailed || error instanceof OtherVenue)
    return { code: 4, message: `nothing was sent: ${message}` }
  if (error instanceof EvidenceUnavailable) return { code: 3, message }
  if (error instanceof VenueProblem) return { code: 1, message: `the venue refuses: ${message}` }
  if (error instanceof NoNote) {
    const needs = `${error.facts.needed} base units of ${error.facts.mint} are needed`
    return { code: 1, message: `${message}: ${needs}; 'tacit notes' shows the free ones` }
  }
  if (error instanceof SessionEnded)
    return judge(error.cause as Error, rpc) ?? { code: 2, message: `${message}: ${error.cause}` }
  if (isOneOf(error, REFUSALS)) return { code: 1, message }
  if (isOneOf(error, INPUTS)) return { code: 64, message }
  const failure = chainFailure(error, rpc)
  if (failure !== undefined) return { code: 3, message: failure }
  const is_lost = error instanceof TypeError || error.name === 'TimeoutError'
  return is_lost ? { code: 3, message: `the connection is lost: ${message}` } : undefined
}
