/** Polls the vault on all providers: verdicts on config, leaves and exit requests count as a quorum shows them. */
import { equalBytes } from '../../../protocol/bytes'
import type { ConfigAccount } from '../../../protocol/vault/accounts'
import { withoutSuccessor } from '../../../protocol/vault/admin'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, OutboxPort } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import type { Commits } from '../client/epoch'
import { supervise } from '../client/health'
import { readAnnouncements, readVaults, type VaultSnapshot } from '../client/read_vault'
import { type Answer, ChainUnavailable, wholeOf } from '../client/rpc_pool'
import { transactionStatuses } from '../client/transaction_status'
import type { ExitWatch } from './watch_exits'
import type { LeafWatch } from './watch_leaves'

export class Watcher {
  private exits_slot = Number.NEGATIVE_INFINITY
  /** The newest vaults at finalized: the base of reports. */
  private finalized: readonly Answer<VaultSnapshot>[] = []
  private readonly progress = { confirmed: new Progress(), finalized: new Progress() }
  private readonly seen: Record<'confirmed' | 'finalized', number[]> = { confirmed: [], finalized: [] }

  constructor(
    readonly client: ChainClient,
    readonly parts: { verdicts: Verdicts; leaves: LeafWatch; exits: ExitWatch; commits: Commits },
    /** The newest finalized batch of this run. */
    readonly newestFinal: () => { signature: Uint8Array; slot: number } | undefined,
  ) {}

  /** Runs until the client closes or another instance holds the vault. */
  async run(): Promise<void> {
    const { client } = this
    const { verdicts, commits } = this.parts
    const each = (step: () => Promise<void>) =>
      supervise(client, async () => {
        // The engine takes nothing more then.
        if (verdicts.isDisowned()) return false
        await step()
        await client.rpc.sleep(client.view.slotMs())
        return true
      })
    // While `commit_reorged` lasts the engine holds each report, and only `judge` ends it, which waits for no transaction.
    const mend = () => commits.mend(() => verdicts.isDisowned())
    await Promise.all([each(() => this.judge()), each(() => this.report()), each(mend)])
  }

  private async judge(): Promise<void> {
    const { verdicts, commits } = this.parts
    const confirmed = await this.read('confirmed')
    verdicts.atConfirmed(confirmed)
    const finalized = await this.read('finalized')
    this.finalized = finalized
    commits.guard(confirmed, finalized)
    verdicts.atFinalized(finalized)
  }

  private async report(): Promise<void> {
    const { client, finalized } = this
    const { verdicts, leaves, exits } = this.parts
    if (finalized.length === 0) return
    if (finalized.length >= client.rpc.quorum) {
      const reproduced = await leaves.follow(finalized)
      if (reproduced !== undefined) verdicts.standing('root_mismatch', !reproduced)
    }
    const { slot } = client.view.now()
    if (slot - this.exits_slot < LIMITS.exits_look_slots) return
    const batches = client.rpc.reached(finalized.map(({ value }) => value.config.last_batch))
    if (batches !== undefined) await exits.follow(batches)
    await this.audit()
    // A look that failed is repeated at once, so that no step without one makes the chain seem reachable.
    this.exits_slot = slot
  }

  private async read(level: 'confirmed' | 'finalized'): Promise<Answer<VaultSnapshot>[]> {
    const { client } = this
    const answers = await readVaults(client, level, this.seen[level])
    const progress = this.progress[level]
    const counts = answers.map(({ value }) => value.config.last_batch + value.tree.leaf_count)
    const agreed = client.rpc.reached(counts)
    if (agreed === undefined) return answers
    progress.advance(client.view.agreed(level), agreed)
    const agree = answers.map(({ at, value }, index) => progress.agrees(at, value.slot, counts[index]!))
    // Without a quorum any of them may be the false one.
    const decided = agree.filter(Boolean).length >= client.rpc.quorum
    for (const [index, { at }] of answers.entries()) {
      client.health.judge(`progress ${level}`, at, decided && agree[index]!)
    }
    return answers
  }

  /** A batch that was final long enough must be known to every provider. @throws ChainUnavailable */
  private async audit(): Promise<void> {
    const { rpc, view, health } = this.client
    const landed = this.newestFinal()
    if (!landed || view.agreed('finalized') <= landed.slot + LIMITS.chain_lag_slots_max) return
    for (const { at, value } of await rpc.all((reader) =>
      transactionStatuses({ rpc: reader }, [landed.signature]),
    )) {
      health.judge('history', at, value[0]?.error === null && value[0].slot === landed.slot)
    }
  }
}

/** Finds providers whose count of batches and leaves stays away from the agreed one for longer than providers may lag. */
class Progress {
  /** Ascending. */
  private readonly agreed: { slot: number; count: number }[] = []
  /** By provider: its first count that the quorum has not reached, and the slot of that answer. */
  private readonly claims = new Map<number, { slot: number; count: number }>()

  advance(slot: number, count: number): void {
    if (count <= (this.agreed.at(-1)?.count ?? -1)) return
    this.agreed.push({ slot, count })
    const old = this.agreed.findLastIndex((one) => one.slot <= slot - 2 * LIMITS.chain_lag_slots_max)
    if (old > 0) this.agreed.splice(0, old)
  }

  agrees(at: number, slot: number, count: number): boolean {
    const due = this.agreed.findLast((one) => one.slot <= slot - LIMITS.chain_lag_slots_max)
    const { count: reached } = this.agreed.at(-1)!
    if (count <= reached) this.claims.delete(at)
    const known = this.claims.get(at)
    if (count > reached && (!known || known.count <= reached)) this.claims.set(at, { slot, count })
    const claim = this.claims.get(at)
    return count >= (due?.count ?? 0) && (!claim || slot - claim.slot <= LIMITS.chain_lag_slots_max)
  }
}

type VerdictArgs = {
  client: Pick<ChainClient, 'rpc' | 'health'>
  sink: ChainSinkPort
  outbox: OutboxPort
  epoch: number
  /** Newest batch that the engine knew at the start. */
  last_batch: number
  own_boot_nonces: readonly Uint8Array[]
}
type HaltReason = Parameters<ChainSinkPort['halted']>[0]

/**
 * Halts and resumes the venue by the view of a quorum: for another instance or a lost journal at confirmed, because
 * acknowledgements must stop early and only a restart ends that; for everything else at finalized, until it is disproved.
 */
export class Verdicts {
  private readonly held = new Map<HaltReason, boolean>()
  /** By a quorum at confirmed, the vault settles nothing of this epoch. */
  private closed = false
  /** Newest batch that the relayer has acted on. */
  private newest_own = 0

  constructor(readonly args: VerdictArgs) {}

  /** No settlement may be signed now. */
  isHalted(): boolean {
    return this.closed || [...this.held.values()].includes(true)
  }

  isDisowned(): boolean {
    return this.held.get('forked') === true || this.held.get('rolled_back') === true
  }

  atConfirmed(answers: readonly Answer<VaultSnapshot>[]): void {
    const { health, rpc } = this.args.client
    const verdict = health.decide('instance', answers, ({ config }) => this.instance(config) ?? 'own')
    const reason = verdict && this.instance(verdict.config)
    if (reason) this.standing(reason, true)
    // A fork may take back a confirmed opening; until it has landed again, every settlement would be rejected.
    const isClosed = ({ config }: VaultSnapshot) =>
      config.frozen || config.paused || config.epoch < this.args.epoch
    const closed = rpc.majority(answers, (value) => String(isClosed(value)))
    if (closed) this.closed = isClosed(closed[0]!.value)
  }

  atFinalized(answers: readonly Answer<VaultSnapshot>[]): void {
    const { health } = this.args.client
    for (const what of ['frozen', 'paused'] as const) {
      const agreed = health.decide(what, answers, ({ config }) => String(config[what]))
      if (agreed) this.standing(`vault_${what}`, agreed.config[what])
    }
  }

  /** Reports a verdict when it changes, and at the first time: an earlier run may have halted for it. */
  standing(reason: HaltReason, holds: boolean): void {
    if (this.held.get(reason) === holds) return
    this.held.set(reason, holds)
    const { client, sink } = this.args
    client.health.set(reason, holds)
    if (holds) sink.halted(reason)
    else sink.resumed(reason)
  }

  private instance(config: ConfigAccount): 'forked' | 'rolled_back' | undefined {
    const { outbox, last_batch, own_boot_nonces } = this.args
    const own = config.epoch === 0 || own_boot_nonces.some((nonce) => equalBytes(nonce, config.boot_nonce))
    if (!own) return 'forked'
    if (config.last_batch > last_batch && !this.isOwn(config.last_batch)) return 'rolled_back'
    const head = outbox.head()
    if (config.journal_seq > head.seq) return 'rolled_back'
    return config.journal_seq === head.seq && !equalBytes(config.journal_head, head.head)
      ? 'forked'
      : undefined
  }

  /** Marks a batch as this venue's before the relayer acts on it: its payload may be deleted before the next check. */
  ownBatch(batch_id: number): void {
    this.newest_own = Math.max(this.newest_own, batch_id)
  }

  private isOwn(batch_id: number): boolean {
    return batch_id <= this.newest_own || this.args.outbox.payload(batch_id) !== undefined
  }
}

/** Polls the fee payer's balance until the client closes; keeps it, and sets or clears `fee_payer_low`. */
export async function watchPayer({ rpc, view, payer, health, fees }: ChainClient): Promise<void> {
  while (!rpc.closed) {
    try {
      const answers = await rpc.all(async (reader) => {
        const { value } = await reader.read((endpoint, abortSignal) =>
          endpoint.getBalance(payer.address, { commitment: 'confirmed' }).send({ abortSignal }),
        )
        return wholeOf(value)
      })
      const lamports = rpc.reached(answers.map(({ value }) => value))!
      health.fee_payer_lamports = BigInt(lamports)
      health.set('fee_payer_low', lamports < fees.balance_min_lamports)
    } catch (error) {
      if (!(error instanceof ChainUnavailable)) throw error
    }
    await rpc.sleep(LIMITS.payer_look_slots * view.slotMs())
  }
}

/** Reads the announcements until the client closes; sets or clears `no_successor`. */
export async function watchSuccessors(client: ChainClient): Promise<void> {
  const { rpc, view, health } = client
  while (!rpc.closed) {
    try {
      const { announced } = await readAnnouncements(client)
      const missing = withoutSuccessor(announced, Math.floor(view.now().unix_ms / 1000))
      health.set('no_successor', missing.length > 0)
    } catch (error) {
      if (!(error instanceof ChainUnavailable)) throw error
    }
    await rpc.sleep(LIMITS.announced_look_slots * view.slotMs())
  }
}
