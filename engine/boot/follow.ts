/** Follows the leader of a cluster: each entry of the log becomes part of this node's journal and state (cluster.md "Takeover"). */

import { encodeBase58 } from '../../protocol/base58'
import { venueId } from '../../protocol/bodies/venue_id'
import { concatBytes, toHex } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import type { ChainPoint } from '../../protocol/units'
import { ClusterNode } from '../cluster/cluster_node'
import { LogRolledBack } from '../cluster/replicated_log'
import type { EngineConfig } from '../config'
import type { SignedFrame, SignedGroup } from '../journal/contract'
import { readGroups } from '../journal/frame'
import { LIMITS } from '../limits'
import { VERSIONS } from '../machine/state/version'
import type { ChainPort, ClockPort, KeysPort, VaultConfig, VaultMint } from '../ports'
import { reasonText } from '../sequencer/reasons'
import type { FollowingNode } from '../venue'
import { bootRecordOf, groupCheck, isUnused, judgeJournal, positionOf } from './check_chain'
import { type Loaded, loadJudged } from './load_state'
import { Replay, replay } from './replay'

/** An entry of the log opens under the venue's key, and no boot of the venue signed it: nothing of it is used. */
class EntryUnsigned extends Error {
  override readonly name = 'EntryUnsigned'
}

const CONTRADICTED_MESSAGE =
  'the chain contradicts this journal, so no log goes on behind it: start a node whose journal the chain shows'

/** Of a configuration that names a cluster. */
export function openNode(
  { cluster }: EngineConfig,
  { chain, clock, keys }: { chain: ChainPort; clock: ClockPort; keys: KeysPort },
  vault: VaultConfig,
): ClusterNode | undefined {
  if (cluster === undefined) return undefined
  const sealing = { key: keys.journal_key, venue: venueOf(chain, vault) }
  return new ClusterNode(cluster, sealing, cluster.url ?? '', () => clock.monotonicMs(), VERSIONS.at(-1)!)
}

/** What a node answers while it follows. */
export function followingNode(
  node: ClusterNode,
  loaded: Pick<Loaded, 'journal' | 'state'>,
  { enclave }: EngineConfig,
  chain: ChainPort,
  vault: VaultConfig,
): FollowingNode {
  const lag = () => node.lag(loaded.journal.head().seq)
  return {
    venue: toHex(venueOf(chain, vault)),
    lag,
    versions: () => ({ version: loaded.state.version, carried: VERSIONS }),
    leaderUrl: () => node.leader_url || undefined,
    status() {
      const { slot, lag_ms } = chain.view()
      const is_unread = lag().age_ms > LIMITS.log_unread_ms
      const reasons = [reasonText('following'), ...(is_unread ? [reasonText('log_unread')] : [])]
      const { settlement } = chain.health()
      const state = { ready: false, matching: 'stopped', settlement, draining: false, reasons } as const
      return { ...state, chain: { slot, lag_ms, genesis_hash: encodeBase58(chain.genesis_hash) }, enclave }
    },
  }
}

/**
 * Follows until this node leads; then `loaded` is what the log leads to, judged by the chain as it is now.
 * @param loaded changed in place where the node was behind: its caller closes it
 * @param fatal called when another node has taken over
 */
export async function untilLeading(
  node: ClusterNode,
  loaded: Loaded,
  config: EngineConfig,
  { chain, keys }: { chain: ChainPort; keys: KeysPort },
  vault: VaultConfig,
  fatal: (error: Error) => void,
): Promise<{ loaded: Loaded; vault: VaultConfig; mints: VaultMint[] }> {
  const follower = new Follower(loaded, config, keys.journal_key, chain, vault)
  await node
    .untilLeading(
      () => loaded.journal.head(),
      (entry) => follower.take(entry),
      fatal,
    )
    .catch(async (error) => {
      if (!(error instanceof LogRolledBack) || error.repair === undefined) throw error
      const { fault } = await judgeJournal(await chain.readConfig('confirmed'), chain, loaded.journal)
      // A log that went on behind it would have no node that leads.
      throw fault === undefined
        ? error
        : new LogRolledBack(`${error.what}; ${CONTRADICTED_MESSAGE} (${fault})`)
    })
  const [now, mints] = await Promise.all([chain.readConfig('confirmed'), chain.readMints()])
  await follower.judge(now)
  return { loaded, vault: now, mints }
}

class Follower {
  private readonly isSigned: ReturnType<typeof groupCheck>
  /** Undefined while the journal has groups whose author the chain has yet to show: those are on disk alone. */
  private replay: Replay | undefined
  /** The end of what the state has. */
  private replayed: ChainPoint
  /** As of the newest verdict. */
  private judged: VaultConfig

  /** @param vault as read last */
  constructor(
    private readonly loaded: Loaded,
    private readonly config: EngineConfig,
    private readonly key: Uint8Array,
    private readonly chain: ChainPort,
    private vault: VaultConfig,
  ) {
    this.isSigned = groupCheck(venueOf(chain, vault))
    this.judged = vault
    this.replayed = loaded.journal.head()
    if (loaded.verdict.fault === undefined) this.replay = new Replay(loaded)
  }

  /**
   * Resolves when the entry is on disk, and in the state if the chain shows who wrote it.
   * @throws EntryUnsigned, ReplayDisagrees, JournalClosed
   */
  async take(entry: SignedFrame): Promise<void> {
    const { journal } = this.loaded
    const groups = readGroups(concatBytes(...entry.groups), entry.from)
    for (const group of groups) {
      if (!(await this.isShown({ ...group, author: entry.author }))) this.replay = undefined
    }
    await journal.adopt(entry)
    if (this.replay === undefined) {
      // Before the position is in the journal, and again with the same reading, the verdict would be the same.
      const is_due = this.judged !== this.vault || entry.from.seq < this.vault.journal_seq
      if (is_due && journal.head().seq >= this.vault.journal_seq) await this.judge(this.vault)
      return
    }
    for (const group of groups) await this.replay.take(group.records, { seq: group.seq, head: group.head })
    this.replay.end()
    this.replayed = journal.head()
  }

  /** Judges the journal by the chain, then replays what the state lacks of it; where the chain contradicts it, nothing. */
  async judge(vault: VaultConfig): Promise<void> {
    const { loaded } = this
    const { journal } = loaded
    this.judged = vault
    const verdict = await judgeJournal(vault, this.chain, journal)
    const was_shown = loaded.verdict.fault === undefined
    const is_shown = verdict.fault === undefined
    // A restore continues boot records.
    if (!was_shown && (is_shown || (await isUnused(journal)))) await this.reload(vault, verdict)
    else if (is_shown && this.replay === undefined) await replay(loaded, this.replayed, [positionOf(vault)])
    loaded.verdict = verdict
    this.replay = is_shown ? new Replay(loaded) : undefined
    if (is_shown) this.replayed = journal.head()
  }

  /** Opens read models, snapshots and stores again, of which nothing was used. */
  private async reload(vault: VaultConfig, verdict: Loaded['verdict']): Promise<void> {
    const { loaded } = this
    const { journal, snapshots } = loaded
    await loaded.history.close()
    loaded.facts.close()
    loaded.stores.close()
    Object.assign(loaded, await loadJudged(this.config, this.key, vault, { journal, snapshots, verdict }))
  }

  /**
   * As at a start (`judgeJournal`): behind the position on chain every group is signed by the boot whose epoch the chain shows,
   * but for boot records. False for another one up to that position, which its heads judge once it is in the journal.
   * @throws EntryUnsigned
   */
  private async isShown(group: SignedGroup): Promise<boolean> {
    if (tryDecode(() => bootRecordOf(group)) !== undefined) return true
    for (let reads = 0; ; reads++) {
      const { epoch, journal_seq, settlement_signer } = this.vault
      const is_of_epoch = group.author.epoch === epoch
      if (is_of_epoch && this.isSigned(group, settlement_signer)) return true
      if (group.seq <= journal_seq) return false
      // The own providers may be behind those of the leader, which saw its epoch before it wrote anything.
      const is_ahead = group.author.epoch > epoch && reads < LIMITS.follower_reads_max
      if (reads > 0 && !is_ahead) break
      if (reads > 0) await Bun.sleep(this.chain.view().slot_ms)
      this.vault = await this.chain.readConfig('confirmed')
    }
    throw new EntryUnsigned(
      `not signed by the boot that the chain shows: the group that ends at ${group.seq}`,
    )
  }
}

const venueOf = ({ genesis_hash, program_id, config_account }: ChainPort, { generation }: VaultConfig) =>
  venueId({ genesis_hash, program_id, config_account, generation })
