/** Sets the waits and attempts of the deployment commands. */

/** Longest wait for one answer of an RPC endpoint. */
export const CALL_MS = 30_000
/** Writes of a deployment in flight at the same time. */
export const WRITES_PARALLEL_MAX = 8
/** Poll interval of a transaction's status, and polls between two broadcasts of it. */
export const POLL_MS = 200
export const RESEND_POLLS = 5
/** Signatures of one transaction before it counts as lost. */
export const SIGNINGS_MAX = 10
/** Polls of the payer's balance before a command fails: SOL may be on its way. */
export const FEE_POLLS_MAX = 15
