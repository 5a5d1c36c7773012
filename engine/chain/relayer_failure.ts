/** What the relayer does about a refused settlement: cite and sign again, or stop for good. */
import type { VaultErrorName } from '../../protocol/vault/errors'
import type { TransactionFailure } from './transaction_failure'

/** The chain moved between reading and landing: read, cite again, sign again. */
const CITE_AGAIN: readonly (VaultErrorName | undefined)[] = [
  'batch_out_of_sequence',
  'unknown_state',
  'journal_regressed',
]
/** A simulation runs on one node's view; a verdict counts once it was given this often. */
const SIMULATED_VERDICTS = 5

/** Neither the cluster's circumstances nor a chain that moved: the program will say the same again. */
export function isVerdict(failure: TransactionFailure): failure is TransactionFailure & { kind: 'program' } {
  return failure.kind === 'program' && !CITE_AGAIN.includes(failure.name)
}

/**
 * The reason to stop, or undefined to try again.
 * @param landed the refusal was executed in a block, not only simulated
 * @param verdicts how often in a row the program has judged this batch, this time included
 */
export function answerFailure(
  failure: TransactionFailure,
  landed: boolean,
  verdicts: number,
): 'forked' | 'vault_frozen' | 'vault_paused' | 'program_error' | undefined {
  if (!isVerdict(failure)) return undefined
  if (!landed && verdicts < SIMULATED_VERDICTS) return undefined
  switch (failure.name) {
    case 'stale_epoch':
    case 'not_settlement_signer':
    case 'journal_conflict':
      return 'forked'
    case 'vault_frozen':
      return 'vault_frozen'
    case 'vault_paused':
      return 'vault_paused'
    default:
      return 'program_error'
  }
}
