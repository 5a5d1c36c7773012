/** Why settlement is not in order right now: a set of reasons that each part sets and clears. */

/** Added to, never renamed: operators alert on them. */
export type HealthReason =
  | 'rpc_unreachable'
  | 'internal_error'
  | 'slot_stalled'
  | 'fee_payer_low'
  | 'batch_delayed'
  | 'program_error'
  | 'vault_frozen'
  | 'vault_paused'
  | 'forked'
  | 'rolled_back'
  | 'root_mismatch'

export class ChainHealth {
  readonly #reasons = new Set<HealthReason>()

  set(reason: HealthReason, present: boolean): void {
    if (present) this.#reasons.add(reason)
    else this.#reasons.delete(reason)
  }

  reasons(): HealthReason[] {
    return [...this.#reasons].sort()
  }
}
