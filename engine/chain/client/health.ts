/** Reports the health of the chain loops, names providers that contradict the quorum, and retries failed steps. */

import { isSolanaError } from '@solana/kit'
import { LIMITS } from '../../limits'
import { type ChainPort, type ProviderReason, SETTLEMENT_REASONS, type SettlementReason } from '../../ports'
import type { ChainClient } from './chain_client'
import { VaultUnreadable } from './read_vault'
import { type Answer, backoffMs, ChainUnavailable, type RpcPool } from './rpc_pool'

type LoopReason = Extract<SettlementReason, 'rpc_unreachable' | 'internal_error'>

/** The current reasons why settlement is degraded; each part sets and clears its own. */
export class ChainHealth {
  /** As a quorum showed it last. */
  fee_payer_lamports: bigint | undefined
  private readonly reported = new Set<SettlementReason>()
  /** By loop: why its last step failed. The success of another loop says nothing about it. */
  private readonly failing = new Map<object, LoopReason>()
  private readonly watched = new Map<SettlementReason, () => boolean>()
  /** By fact and provider: since when its answers deviate without a break, and for how long they did at the last one. */
  private readonly deviating = new Map<
    string,
    { reason: ProviderReason; at: number; since_ms: number; ms: number }
  >()

  /** @param slot_ms expected slot time, in which the patience with a provider is measured */
  constructor(
    readonly rpc: Pick<RpcPool, 'hosts' | 'majority' | 'quorum'>,
    readonly monotonicMs: () => number,
    readonly slot_ms: number,
  ) {}

  set(reason: SettlementReason, present: boolean): void {
    if (present) this.reported.add(reason)
    else this.reported.delete(reason)
  }

  /** For one loop: reports why its last step failed, undefined once it succeeds or ends. */
  reporter(): (reason: LoopReason | undefined) => void {
    const loop = {}
    return (reason) => {
      if (reason === undefined) this.failing.delete(loop)
      else this.failing.set(loop, reason)
    }
  }

  /** Evaluates `present` whenever the reasons are read, so that a loop that hangs cannot hide its delay. */
  watch(reason: SettlementReason, present: () => boolean): void {
    this.watched.set(reason, present)
  }

  /** Judges one answer of the provider at `at` about `fact`; deviating for longer than the allowed lag raises the alarm. */
  judge(fact: string, at: number, agrees: boolean, reason: ProviderReason = 'provider_disagrees'): void {
    const key = `${reason} ${fact} ${at}`
    if (agrees) {
      this.deviating.delete(key)
      return
    }
    const now_ms = this.monotonicMs()
    const { since_ms } = this.deviating.get(key) ?? { since_ms: now_ms }
    this.deviating.set(key, { reason, at, since_ms, ms: now_ms - since_ms })
  }

  /**
   * The answer that a quorum gives alike by `keyOf`, undefined while there is none. Judges every provider by it; without a
   * quorum each of them deviates, because any may be the false one.
   * @param mayLag whether an answer that differs from the quorum's may be an earlier one; it is not judged then
   */
  decide<T>(
    fact: string,
    answers: readonly Answer<T>[],
    keyOf: (value: T) => string,
    mayLag: (value: T) => boolean = () => false,
  ): T | undefined {
    if (answers.length < this.rpc.quorum) return undefined
    const agreed = this.rpc.majority(answers, keyOf)
    for (const answer of answers) {
      const agrees = agreed?.includes(answer) ?? false
      if (agrees || !agreed || !mayLag(answer.value)) this.judge(fact, answer.at, agrees)
    }
    return agreed?.[0]?.value
  }

  report(): ReturnType<ChainPort['health']> {
    const reasons = this.reasons()
    const overdue = Object.entries(SETTLEMENT_REASONS).some(
      ([reason, kind]) => kind === 'overdue' && reasons.includes(reason),
    )
    return { settlement: reasons.length > 0 ? 'degraded' : 'wired', reasons, overdue }
  }

  figures(): ReturnType<ChainPort['figures']> {
    const { fee_payer_lamports } = this
    return { providers: this.rpc.hosts.length, providers_agreeing: this.agreeing(), fee_payer_lamports }
  }

  /** Deviations that last longer than the patience with a provider. */
  private named() {
    const patience_ms = LIMITS.chain_lag_slots_max * this.slot_ms
    return [...this.deviating.values()].filter(({ ms }) => ms >= patience_ms)
  }

  /** An answer far ahead counts as at the agreed slot, so it is not missing. */
  private agreeing(): number {
    const missing = this.named().flatMap(({ reason, at }) => (reason === 'provider_ahead' ? [] : [at]))
    return this.rpc.hosts.length - new Set(missing).size
  }

  reasons(): string[] {
    const providers = this.named().map(({ reason, at }) => `${reason}: ${this.rpc.hosts[at]}`)
    const quorum: SettlementReason[] = this.agreeing() < this.rpc.quorum ? ['no_quorum'] : []
    const watched = [...this.watched].flatMap(([reason, present]) => (present() ? [reason] : []))
    return [
      ...new Set([...this.reported, ...this.failing.values(), ...watched, ...quorum, ...providers]),
    ].sort()
  }
}

/**
 * Repeats `step` until the client closes. A failed step is reported and retried with backoff.
 * @param step resolves with false to end the loop
 */
export async function supervise(
  { rpc, health }: Pick<ChainClient, 'rpc' | 'health'>,
  step: () => Promise<boolean>,
): Promise<void> {
  const report = health.reporter()
  for (let failures = 0; !rpc.closed; ) {
    try {
      const goes_on = await step()
      report(undefined)
      if (!goes_on) return
      failures = 0
    } catch (error) {
      if (rpc.closed) return
      const outside =
        error instanceof ChainUnavailable || error instanceof VaultUnreadable || isSolanaError(error)
      report(outside ? 'rpc_unreachable' : 'internal_error')
      await rpc.sleep(backoffMs(failures++))
    }
  }
}

export class Patience<K> {
  private readonly failures = new Map<K, { count: number; slot: number }>()

  failed(key: K, slot: number): void {
    this.failures.set(key, { count: this.count(key) + 1, slot })
  }

  count(key: K): number {
    return this.failures.get(key)?.count ?? 0
  }

  /** The wait doubles with each failure. */
  mayTry(key: K, slot: number): boolean {
    const failure = this.failures.get(key)
    if (!failure) return true
    return (
      slot - failure.slot >=
      LIMITS.exits_look_slots * 2 ** Math.min(failure.count, LIMITS.retry_doublings_max)
    )
  }

  /** Forgets all other keys. */
  keep(keys: ReadonlySet<K>): void {
    for (const key of this.failures.keys()) if (!keys.has(key)) this.failures.delete(key)
  }
}
