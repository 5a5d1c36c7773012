/** Builds a transaction in the version the operator chose, or as v1 when it fits no packet. */
import {
  buildTransaction,
  type SignedTransaction,
  type TransactionDraft,
  type TransactionVersion,
} from './build_transaction'
import type { TransactionFailure } from './transaction_failure'
import { TransactionTooLarge } from './transaction_limits'

export type Built =
  | { signed: SignedTransaction; version: TransactionVersion }
  | { failure: TransactionFailure }

/** What no packet holds, a batch packed before the operator chose v0 or a refusal's proof, goes out as v1 all the same. */
export async function buildFitting(draft: TransactionDraft, wanted: TransactionVersion): Promise<Built> {
  const small = wanted === 0 ? await build(draft, 0) : undefined
  return small && 'signed' in small ? small : build(draft, 1)
}

async function build(draft: TransactionDraft, version: TransactionVersion): Promise<Built> {
  try {
    return { signed: await buildTransaction({ ...draft, version }), version }
  } catch (error) {
    if (!(error instanceof TransactionTooLarge)) throw error
    // Nothing the cluster does makes it smaller: as final as a refusal of the program.
    return { failure: { kind: 'program', name: undefined, text: error.message } }
  }
}
