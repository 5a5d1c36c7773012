/** A policy with other demands, read as its file would be. */
import { parsePolicy, type VerificationPolicy } from '../../../client/verify/policy'

/** A demand that is undefined in `change` is left out. */
export function changedPolicy(policy: object, change: object): VerificationPolicy {
  return parsePolicy(JSON.stringify({ ...policy, ...change }))
}
