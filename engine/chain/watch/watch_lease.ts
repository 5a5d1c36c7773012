/** Watches by which right this instance acts, and the chain's clock: at confirmed, on each provider apart from all other loops. */
import { equalBytes } from '../../../protocol/bytes'
import type { ConfigAccount } from '../../../protocol/vault/accounts'
import { LIMITS } from '../../limits'
import type { ChainPort, OutboxPort } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { readConfigAndClock } from '../client/read_vault'

type Own = { epoch: number; boot_nonce: Uint8Array }
/** The view of one provider: since when its newest answer holds for the own epoch; position, time, announced restores. */
type Shown = { as_of_ms: number; seq: number; unix_s: number; restores: number }
const NOTHING: Shown = { as_of_ms: Number.NEGATIVE_INFINITY, seq: 0, unix_s: 0, restores: 0 }

export class LeaseWatch {
  #own: Own | undefined
  #head: OutboxPort['head'] | undefined
  readonly #shown: Shown[]
  /** Ends the pauses of the polls. */
  #look = Promise.withResolvers<void>()
  /** By provider: newest slot. */
  readonly #seen: number[] = []

  constructor(readonly client: Pick<ChainClient, 'rpc' | 'address' | 'view'>) {
    this.#shown = client.rpc.hosts.map(() => NOTHING)
  }

  /** The instance acts by this epoch from now on; nothing shown before counts for it. */
  claim(own: Own): void {
    this.#own = own
    this.#shown.fill(NOTHING)
  }

  /** Asks every provider at once: the epoch has landed. */
  look(): void {
    this.#look.resolve()
    this.#look = Promise.withResolvers()
  }

  /** Positions count from now on: those of the own journal. */
  follow(head: OutboxPort['head']): void {
    this.#head = head
  }

  now(): ReturnType<ChainPort['lease']> {
    const { rpc, view } = this.client
    const as_of_ms = rpc.reached(this.#shown.map((one) => one.as_of_ms))!
    const covered_seq = rpc.reached(this.#shown.map(({ seq }) => seq))!
    const now_ms = view.options.monotonicMs()
    // A provider that is silent since shows none: it cannot take it back once the anchor has made it void.
    const isNew = (one: Shown) => now_ms - one.as_of_ms <= LIMITS.lease_max_ms
    const restores = rpc.reached(this.#shown.map((one) => (isNew(one) ? one.restores : 0)))!
    return { age_ms: now_ms - as_of_ms, covered_seq, restore_announced: restores > 0 }
  }

  /** Polls every provider until the pool closes; resolves then. */
  async run(): Promise<void> {
    await Promise.all(this.client.rpc.hosts.map((_, at) => this.#poll(at)))
  }

  async #poll(at: number): Promise<void> {
    const { rpc, address, view } = this.client
    const reader = { rpc: rpc.each[at]!, address }
    for (let failures = 0; !rpc.closed; ) {
      const asked_ms = view.options.monotonicMs()
      try {
        const value = await readConfigAndClock(reader, 'confirmed')
        failures = 0
        if (view.fresh('confirmed', [{ at, value }], this.#seen).length > 0) this.#take(at, value, asked_ms)
      } catch {
        failures += 1
      }
      const pause_ms = Math.max(LIMITS.lease_look_ms, view.slotMs())
      const sleep = rpc.sleep(Math.min(LIMITS.rpc_backoff_max_ms, pause_ms * 2 ** Math.min(failures, 5)))
      await Promise.race([sleep, this.#look.promise])
    }
  }

  #take(
    at: number,
    { slot, config, unix_s }: Awaited<ReturnType<typeof readConfigAndClock>>,
    asked_ms: number,
  ): void {
    const { view } = this.client
    const own = this.#own
    const is_own = own?.epoch === config.epoch && equalBytes(own.boot_nonce, config.boot_nonce)
    const lag_ms = Math.max(0, view.agreed('confirmed') - slot) * view.slotMs()
    const as_of_ms = is_own ? asked_ms - lag_ms : Number.NEGATIVE_INFINITY
    const restores = is_own && config.pending_restore_at_s > 0 ? 1 : 0
    const seq = this.#isOwnPosition(config) ? config.journal_seq : 0
    this.#shown[at] = { as_of_ms, seq, unix_s, restores }
    view.showClock(this.#shown.map((one) => one.unix_s))
  }

  #isOwnPosition({ journal_seq, journal_head }: ConfigAccount): boolean {
    const head = this.#head?.()
    if (head === undefined || journal_seq > head.seq) return false
    return journal_seq < head.seq || equalBytes(journal_head, head.head)
  }
}
