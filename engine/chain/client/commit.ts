/** Stores the position of a close on chain as the commit of its batch, and reads what the chain decided (matching.md "Close, commit, match"). */
import { equalBytes } from '../../../protocol/bytes'
import type { ConfigAccount } from '../../../protocol/vault/accounts'
import { anchorInstruction } from '../../../protocol/vault/epochs'
import { LIMITS } from '../../limits'
import type { BatchDecision, ClosePosition, OutboxPort } from '../../ports'
import type { SignedTransaction } from './build_transaction'
import type { ChainClient } from './chain_client'
import { anchor } from './epoch'
import { supervise } from './health'
import { broadcast } from './land_instruction'
import { readVaults, type VaultSnapshot } from './read_vault'
import type { Answer } from './rpc_pool'
import { COMPUTE_UNITS, signVaultInstruction, Terms } from './sign_vault_instruction'

/** Shares of the commit time after which the next variant is sent; each pays twice the fee of the one before. */
const VARIANTS_AT = [0, 1 / 4, 1 / 2] as const

/** One close on its way to the chain. */
type Commit = {
  readonly close: ClosePosition
  readonly not_after_slot: number
  /** Chain second (unix). */
  readonly not_after_s: number
  readonly start_ms: number
  readonly commit_ms: number
  /** Variants signed so far, and the newest. */
  variants: number
  newest: SignedTransaction | undefined
  sent_slot: number
}

export class Commits {
  readonly #seen: number[] = []
  /**
   * The newest decided commit, the record of its match, and by provider the slot of its answer by then, until a quorum shows
   * both as final.
   */
  #guarded: { commit: Commit; match_seq: number; seen: number[] } | undefined
  #newest: Commit | undefined
  /** The one that the chain has not decided yet. */
  #open: Commit | undefined

  constructor(
    readonly client: ChainClient,
    readonly epoch: number,
    readonly head: OutboxPort['head'],
  ) {
    client.health.watch('commit_undecided', () => {
      const { start_ms = Number.POSITIVE_INFINITY, commit_ms = 0 } = this.#open ?? {}
      return client.view.options.monotonicMs() - start_ms > LIMITS.commit_delay * commit_ms
    })
  }

  /** Sends the commit and resolves with the decision; undefined when the client closes first. */
  async decide(close: ClosePosition, commit_ms: number): Promise<BatchDecision | undefined> {
    const { client } = this
    const { slot_ms, unix_ms } = client.view.now()
    const commit: Commit = {
      close,
      not_after_slot: close.slot + Math.ceil(commit_ms / slot_ms),
      not_after_s: Math.floor(unix_ms / 1_000) + LIMITS.commit_clock_s,
      start_ms: client.view.options.monotonicMs(),
      commit_ms,
      variants: 0,
      newest: undefined,
      sent_slot: Number.NEGATIVE_INFINITY,
    }
    this.#open = commit
    let decision: BatchDecision | undefined
    await supervise(client, async () => {
      const { slot } = client.view.now()
      // A provider that takes no transactions may still show the decision.
      const sent = this.#send(commit).then(
        () => undefined,
        (error: unknown) => error,
      )
      decision = this.#judge(commit, await readVaults(client, 'confirmed', this.#seen))
      if (decision !== undefined) return false
      const failed = await sent
      if (failed !== undefined) throw failed
      await client.view.after(slot)
      return true
    })
    this.#open = undefined
    if (decision?.outcome === 'committed') this.#newest = commit
    return decision
  }

  /** Record `match_seq` holds the match of the batch decided last: the commit is watched from here on. */
  matched(match_seq: number): void {
    if (this.#newest !== undefined) this.#guarded = { commit: this.#newest, match_seq, seen: [...this.#seen] }
  }

  /**
   * Reports `commit_reorged` while a quorum shows neither the decided commit nor a position past its match, and sends again:
   * the commit while it may land, then an anchor.
   */
  async guard(
    confirmed: readonly Answer<VaultSnapshot>[],
    finalized: readonly Answer<VaultSnapshot>[],
  ): Promise<void> {
    const { client } = this
    const guarded = this.#guarded
    if (guarded === undefined) return
    const holds = ({ config }: VaultSnapshot) =>
      config.commit_seq >= guarded.commit.close.seq || config.journal_seq >= guarded.match_seq
    // An answer that was under way when the commit was decided shows an older vault.
    const fresh = client.view.fresh('confirmed', confirmed, guarded.seen)
    const shown = client.rpc.majority(fresh, (value) => String(holds(value)))
    if (shown === undefined) return
    const lost = !holds(shown[0]!.value)
    client.health.set('commit_reorged', lost)
    if (!lost) {
      if (finalized.filter(({ value }) => holds(value)).length >= client.rpc.quorum) this.#guarded = undefined
      return
    }
    const { commit, match_seq } = guarded
    const { slot } = client.view.now()
    if (slot > commit.not_after_slot) await anchor(client, this.epoch, match_seq, this.head())
    else if (slot - commit.sent_slot >= LIMITS.rebroadcast_slots) {
      commit.sent_slot = slot
      // The blockhash of the bytes sent before may be of the fork that lost.
      commit.newest = await this.#sign(commit, VARIANTS_AT.length)
      await broadcast(client, commit.newest.wire)
    }
  }

  /** Signs the next variant when it is due, or when the newest expired; otherwise sends the newest again at intervals. */
  async #send(commit: Commit): Promise<void> {
    const { view } = this.client
    const waited = (view.options.monotonicMs() - commit.start_ms) / commit.commit_ms
    const due = VARIANTS_AT.filter((share) => waited >= share).length
    const expired =
      commit.newest !== undefined && view.agreed('height') > commit.newest.last_valid_block_height
    const { slot } = view.now()
    if (slot > commit.not_after_slot) return
    if (commit.variants < due || expired) {
      commit.newest = await this.#sign(commit, due)
      commit.variants = due
    } else if (slot - commit.sent_slot < LIMITS.rebroadcast_slots) return
    commit.sent_slot = slot
    await broadcast(this.client, commit.newest!.wire)
  }

  async #sign({ close, not_after_slot, not_after_s }: Commit, variant: number): Promise<SignedTransaction> {
    const { client, epoch } = this
    const instruction = anchorInstruction({
      program: client.vault.program,
      settlement_signer: client.signer_key,
      epoch,
      journal_seq: close.seq,
      journal_head: close.head,
      not_after_slot,
      not_after_s,
    })
    const waited_ms = LIMITS.fee_growth_after_ms * 2 ** (variant - 1)
    const limits = { compute_units: COMPUTE_UNITS, waited_ms }
    const built = await signVaultInstruction(
      client,
      instruction,
      await Terms.read(client, variant - 1),
      limits,
    )
    if ('failure' in built) throw new RangeError('the commit fits no transaction')
    return built.signed
  }

  /**
   * Committed: the stored commit is the close. Void: it is older, in an answer of a slot after the last at which the commit can
   * land, or of a later epoch. Another or newer one is not of this journal.
   */
  #judge(commit: Commit, answers: readonly Answer<VaultSnapshot>[]): BatchDecision | undefined {
    const { rpc, view } = this.client
    const agreed = view.agreed('confirmed')
    const outcomeOf = ({ config, slot }: VaultSnapshot): BatchDecision['outcome'] | 'undecided' => {
      if (config.commit_seq >= commit.close.seq)
        return isCommit(config, commit.close) ? 'committed' : 'rolled_back'
      // A provider that claims to be ahead counts as at the agreed slot.
      const late = Math.min(slot, agreed) > commit.not_after_slot
      return late || config.epoch > this.epoch ? 'void' : 'undecided'
    }
    const shown = rpc.majority(answers, outcomeOf)
    if (shown === undefined) return undefined
    const outcome = outcomeOf(shown[0]!.value)
    if (outcome === 'undecided') return undefined
    // The evidence is what a quorum reaches: one provider of it may show anything beside its verdict.
    const reached = (of: (value: VaultSnapshot) => number) =>
      rpc.reached(shown.map(({ value }) => of(value)))!
    return {
      outcome,
      slot: reached(({ slot }) => slot),
      epoch: reached(({ config }) => config.epoch),
      commit_seq: reached(({ config }) => config.commit_seq),
    }
  }
}

function isCommit({ commit_seq, commit_head }: ConfigAccount, { seq, head }: ClosePosition): boolean {
  return commit_seq === seq && equalBytes(commit_head, head)
}
