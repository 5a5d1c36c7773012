/** Follows the leader of a cluster: each entry of the log becomes part of this node's journal and state (cluster.md "Takeover"). */

import { encodeBase58 } from '../../protocol/base58'
import { concatBytes, toHex } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import { Refusal } from '../../protocol/refusals'
import type { ChainPoint, JournalSeq } from '../../protocol/units'
import type { SystemStatus } from '../../protocol/wire/trading'
import { ClusterNode } from '../cluster/cluster_node'
import { LogRolledBack } from '../cluster/replicated_log'
import type { EngineConfig } from '../config'
import type { KnownNotes } from '../intake/context'
import type { SignedFrame, SignedGroup } from '../journal/contract'
import { readGroups } from '../journal/frame'
import { LIMITS } from '../limits'
import { VERSIONS } from '../machine/state/state'
import type { ChainPort, ClockPort, KeysPort, VaultConfig, VaultMint } from '../ports'
import { reasonText } from '../sequencer/reasons'
import { type EnginePorts, type OpenAccounts, openViews, type Views } from './assemble'
import {
  bootRecordOf,
  groupCheck,
  isUnused,
  judgeJournal,
  positionOf,
  untilKnown,
  venueOf,
} from './check_chain'
import { type Loaded, loadJudged, Replay, replay } from './load_state'

/** An entry of the log opens under the venue's key, and no boot of the venue signed it: nothing of it is used. */
class EntryUnsigned extends Error {
  override readonly name = 'EntryUnsigned'
}

const CONTRADICTED_MESSAGE =
  'the chain contradicts this journal, so no log goes on behind it: start a node whose journal the chain shows'

/** The boots of another generation sign as another venue, which this process, its links and its clients do not have. */
export class VenueRestored extends Error {
  override readonly name = 'VenueRestored'
  constructor() {
    super('the venue was restored from the chain: this node serves it from its next start on')
  }
}

/**
 * A node if the configuration names a cluster. The log has the name of the venue's first generation: a restore, which only a node
 * that leads this log begins, goes on in it, and no later start finds another one.
 */
export function openNode(
  { cluster }: EngineConfig,
  { chain, clock, keys }: { chain: ChainPort; clock: ClockPort; keys: KeysPort },
): ClusterNode | undefined {
  if (cluster === undefined) return undefined
  const sealing = { key: keys.journal_key, venue: venueOf(chain, { generation: 0 }) }
  return new ClusterNode(cluster, sealing, cluster.url ?? '', () => clock.monotonicMs(), VERSIONS.at(-1)!)
}

/**
 * Follows until this node leads; `loaded` is then the state that the log leads to, verified against the chain as it is now.
 * @param follower its journal was changed in place where the node was behind: its caller closes it
 * @param fatal called when another node has taken over
 */
export async function untilLeading(
  follower: Follower,
  fatal: (error: Error) => void,
): Promise<{ loaded: Loaded; vault: VaultConfig; mints: VaultMint[]; views: Views | undefined }> {
  const { chain, loaded, node } = follower
  const judge = (read: VaultConfig) => judgeJournal(read, chain, loaded.journal)
  await node
    .untilLeading(
      () => loaded.journal.head(),
      (entry) => follower.take(entry),
      fatal,
    )
    .catch(async (error) => {
      if (!(error instanceof LogRolledBack) || error.repair === undefined) throw error
      const { fault } = (await untilKnown(follower, await chain.readConfig('confirmed'), judge)).verdict
      // A chain that lacks what the journal has says nothing about its end. Otherwise a log that went on behind it would have no
      // node that leads.
      throw fault === undefined || fault === 'chain_unknown'
        ? error
        : new LogRolledBack(`${error.what}; ${CONTRADICTED_MESSAGE} (${fault})`)
    })
  const [now, mints] = await Promise.all([chain.readConfig('confirmed'), chain.readMints()])
  // Where its verdict changes the follower replaces the state, which no engine may hold by then.
  const { vault } = await untilKnown(follower, now, judge)
  await follower.judge(vault)
  return { loaded, vault, mints, views: follower.current }
}

type ChainPointText = { seq: JournalSeq; head: string }
type FollowerPorts = Pick<EnginePorts, 'chain' | 'clock' | 'keys'>

export class Follower {
  private readonly generation: number
  /** The newest epoch of an entry that the chain did not show in time. */
  private unshown_epoch = 0
  private readonly isSigned: ReturnType<typeof groupCheck>
  /** Undefined while the journal has groups whose author the chain has yet to show: those are on disk alone. */
  private replay: Replay | undefined
  /** The end of the log that the state includes. */
  private replayed: ChainPoint
  /** The config of the newest verdict. */
  private judged: VaultConfig
  /** The views of the state, once there is one. */
  current: Views | undefined
  private opened: (views: Views) => void = () => undefined
  /** Newest ends of groups in the state, with their hashes. */
  private readonly ends = new Map<JournalSeq, string>()
  private readonly waiting = new Set<{ seq: JournalSeq; resolve: () => void }>()

  /**
   * @param vault as read last
   * @param openAccounts absent where the follower serves no clients
   */
  constructor(
    readonly node: ClusterNode,
    readonly loaded: Loaded,
    readonly config: EngineConfig,
    private readonly ports: FollowerPorts,
    private vault: VaultConfig,
    private readonly openAccounts?: OpenAccounts,
  ) {
    this.generation = vault.generation
    this.isSigned = groupCheck(venueOf(ports.chain, vault))
    this.judged = vault
    this.replayed = loaded.journal.head()
    if (loaded.verdict.fault !== undefined) return
    this.show()
    this.ended(this.replayed)
  }

  get chain(): ChainPort {
    return this.ports.chain
  }
  readonly applied = (): JournalSeq => this.replayed.seq
  readonly epoch = (): number => this.loaded.state.epoch
  readonly isAt = ({ seq, head }: ChainPointText): boolean => this.ends.get(seq) === head
  readonly versions = () => ({ version: this.loaded.state.version, carried: VERSIONS })
  readonly lag = () => this.node.lag(this.loaded.journal.head().seq)
  /** Belongs to the state at the time of the read: a reload replaces it. */
  readonly known: KnownNotes = knownOf(() => this.loaded)

  isShown(): boolean {
    return this.current !== undefined && this.loaded.verdict.fault === undefined
  }

  views(): Views {
    if (!this.isShown()) throw new Refusal('lease_lost')
    return this.current!
  }

  onViews(opened: (views: Views) => void): void {
    this.opened = opened
    if (this.current !== undefined) opened(this.current)
  }

  async untilApplied(seq: JournalSeq, ms: number): Promise<void> {
    if (seq <= this.applied()) return
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const one = { seq, resolve: () => resolve(true) }
    this.waiting.add(one)
    const timer = setTimeout(() => resolve(false), ms)
    this.node.hint()
    const is_applied = await promise
    clearTimeout(timer)
    this.waiting.delete(one)
    if (!is_applied) throw new Refusal('lease_lost')
  }

  status(): SystemStatus {
    const { slot, lag_ms } = this.chain.view()
    const is_unread = this.lag().age_ms > LIMITS.log_unread_ms
    const reasons = [reasonText('following'), ...(is_unread ? [reasonText('log_unread')] : [])]
    const { settlement } = this.chain.health()
    const state = { ready: false, matching: 'stopped', settlement, draining: false, reasons } as const
    const genesis_hash = encodeBase58(this.chain.genesis_hash)
    return { ...state, chain: { slot, lag_ms, genesis_hash }, enclave: this.config.enclave }
  }

  /**
   * Resolves when the entry is on disk, and in the state if the chain shows who wrote it.
   * @throws EntryUnsigned, VenueRestored, ReplayDisagrees, JournalClosed
   */
  async take(entry: SignedFrame): Promise<void> {
    const { journal } = this.loaded
    const groups = readGroups(concatBytes(...entry.groups), entry.from)
    const boot = entry.from.seq === 0 ? tryDecode(() => bootRecordOf(groups[0]!)) : undefined
    // Behind the log of before the restore nothing goes on, and the journal would keep it.
    if (boot !== undefined && boot.generation < this.generation)
      throw new EntryUnsigned('the log is that of the venue before it was restored')
    for (const group of groups) {
      if (!(await this.isOfVenue({ ...group, author: entry.author }))) this.replay = undefined
    }
    await journal.adopt(entry)
    if (this.replay === undefined) {
      // Before the position is in the journal, and again with the same reading, the verdict would be the same.
      const is_due = this.judged !== this.vault || entry.from.seq < this.vault.journal_seq
      if (is_due && journal.head().seq >= this.vault.journal_seq) await this.judge(this.vault)
      return
    }
    for (const group of groups) {
      await this.replay.take(group.records, { seq: group.seq, head: group.head })
      this.ended(group)
    }
    this.replay.end()
    this.reached(journal.head())
  }

  private ended({ seq, head }: ChainPoint): void {
    this.ends.set(seq, toHex(head))
    if (this.ends.size > LIMITS.group_ends_max) this.ends.delete(this.ends.keys().next().value!)
  }

  /** The state has everything up to `end`. */
  private reached(end: ChainPoint): void {
    this.replayed = end
    this.ended(end)
    this.current?.hub.resume()
    for (const { seq, resolve } of this.waiting) if (seq <= end.seq) resolve()
  }

  /** From here on reads show replayed records. */
  private show(): void {
    const { config, loaded, openAccounts, ports } = this
    if (openAccounts !== undefined && this.current === undefined) {
      this.current = openViews(config, loaded, ports, openAccounts)
      this.opened(this.current)
    }
    this.replay = new Replay(loaded, this.current)
  }

  /**
   * Verifies the journal against the chain, then replays the records that the state lacks; if the chain contradicts it, none.
   * @throws VenueRestored
   */
  async judge(vault: VaultConfig): Promise<void> {
    if (vault.generation > this.generation) throw new VenueRestored()
    const { loaded } = this
    const { journal } = loaded
    this.judged = vault
    const verdict = await judgeJournal(vault, this.chain, journal)
    const was_shown = loaded.verdict.fault === undefined
    const is_shown = verdict.fault === undefined
    // A restore continues boot records.
    if (!was_shown && (is_shown || (await isUnused(journal)))) await this.reload(vault, verdict)
    else if (is_shown && this.replay === undefined)
      await replay(loaded, this.replayed, [positionOf(vault)], this.current)
    loaded.verdict = verdict
    this.replay = undefined
    if (!is_shown) return
    this.show()
    this.reached(journal.head())
  }

  /** Opens read models, snapshots and stores again; nothing of the old ones was used. */
  private async reload(vault: VaultConfig, verdict: Loaded['verdict']): Promise<void> {
    const { loaded } = this
    const { journal, snapshots } = loaded
    await loaded.history.close()
    loaded.facts.close()
    loaded.stores.close()
    Object.assign(loaded, await loadJudged(this.config, this.ports, vault, { journal, snapshots, verdict }))
  }

  /**
   * As at a start (`judgeJournal`): behind the position on chain every group is signed by the boot whose epoch the chain shows,
   * but for boot records. False for another one up to that position, which its heads judge once it is in the journal.
   * @throws EntryUnsigned, VenueRestored
   */
  private async isOfVenue(group: SignedGroup): Promise<boolean> {
    if (tryDecode(() => bootRecordOf(group)) !== undefined) return true
    for (let reads = 0; ; reads++) {
      const { epoch, journal_seq, settlement_signer } = this.vault
      const is_of_epoch = group.author.epoch === epoch
      if (is_of_epoch && this.isSigned(group, settlement_signer)) return true
      // The own providers may be behind those of the leader, which saw its epoch before it wrote anything.
      const is_ahead =
        group.author.epoch > Math.max(epoch, this.unshown_epoch) && reads < LIMITS.follower_reads_max
      if (group.seq <= journal_seq && !is_ahead) {
        this.unshown_epoch = Math.max(this.unshown_epoch, group.author.epoch)
        return false
      }
      if (reads > 0 && !is_ahead) break
      if (reads > 0) await Bun.sleep(this.chain.view().slot_ms)
      const read = await this.chain.readConfig('confirmed')
      if (read.generation > this.generation) throw new VenueRestored()
      // One of before the restore is of providers that are behind.
      if (read.generation === this.generation) this.vault = read
    }
    throw new EntryUnsigned(
      `not signed by the boot that the chain shows: the group that ends at ${group.seq}`,
    )
  }
}

const knownOf = (loaded: () => Loaded): KnownNotes => ({
  get state() {
    return loaded().state
  },
  get past() {
    return loaded().stores
  },
})
