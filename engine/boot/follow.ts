/** Follows the leader of a cluster: each entry of the log becomes part of this node's journal and state (cluster.md "Takeover"). */

import { venueId } from '../../protocol/bodies/venue_id'
import { concatBytes } from '../../protocol/bytes'
import { tryDecode } from '../../protocol/codec'
import { ClusterNode } from '../cluster/cluster_node'
import type { EngineConfig } from '../config'
import type { SignedFrame, SignedGroup } from '../journal/contract'
import { readGroups } from '../journal/frame'
import { LIMITS } from '../limits'
import type { ChainPort, ClockPort, KeysPort, VaultConfig, VaultMint } from '../ports'
import { bootRecordOf, groupCheck, judgeJournal } from './check_chain'
import type { Loaded } from './load_state'
import { Replay } from './replay'

/** An entry of the log opens under the venue's key, and no boot of the venue signed it: nothing of it is used. */
class EntryUnsigned extends Error {
  override readonly name = 'EntryUnsigned'
}

/** Of a configuration that names a cluster. */
export function openNode(
  { cluster }: EngineConfig,
  { chain, clock, keys }: { chain: ChainPort; clock: ClockPort; keys: KeysPort },
  vault: VaultConfig,
): ClusterNode | undefined {
  if (cluster === undefined) return undefined
  const sealing = { key: keys.journal_key, venue: venueOf(chain, vault) }
  return new ClusterNode(cluster, sealing, () => clock.monotonicMs())
}

/**
 * Follows until this node leads; then `loaded` is what the log leads to, judged by the chain as it is now.
 * @param fatal called when another node has taken over
 */
export async function untilLeading(
  node: ClusterNode,
  loaded: Loaded,
  chain: ChainPort,
  vault: VaultConfig,
  fatal: (error: Error) => void,
): Promise<{ loaded: Loaded; vault: VaultConfig; mints: VaultMint[] }> {
  const follower = new Follower(loaded, chain, vault)
  const { journal } = loaded
  await node.untilLeading(
    () => journal.head(),
    (entry) => follower.take(entry),
    fatal,
  )
  const [now, mints] = await Promise.all([chain.readConfig(), chain.readMints()])
  const verdict = await judgeJournal(now, chain, journal)
  return { loaded: { ...loaded, verdict }, vault: now, mints }
}

class Follower {
  private readonly replay: Replay
  private readonly isSigned: ReturnType<typeof groupCheck>

  /** @param vault as read last */
  constructor(
    private readonly loaded: Loaded,
    private readonly chain: ChainPort,
    private vault: VaultConfig,
  ) {
    this.replay = new Replay(loaded)
    this.isSigned = groupCheck(venueOf(chain, vault))
  }

  /** Resolves when the entry is on disk and in the state. @throws EntryUnsigned, ReplayDisagrees, JournalClosed */
  async take(entry: SignedFrame): Promise<void> {
    const groups = readGroups(concatBytes(...entry.groups), entry.from)
    for (const group of groups) await this.verify({ ...group, author: entry.author })
    await this.loaded.journal.adopt(entry)
    for (const group of groups) await this.replay.take(group.records, { seq: group.seq, head: group.head })
    this.replay.end()
  }

  /**
   * As at a start (`judgeJournal`): up to the position on chain its heads decide when this node takes over, and behind it every
   * group is signed by the boot whose epoch the chain shows, but for boot records.
   * @throws EntryUnsigned
   */
  private async verify(group: SignedGroup): Promise<void> {
    if (tryDecode(() => bootRecordOf(group)) !== undefined) return
    for (let reads = 0; ; reads++) {
      const { epoch, journal_seq, settlement_signer } = this.vault
      if (group.seq <= journal_seq) return
      const is_of_epoch = group.author.epoch === epoch
      if (is_of_epoch && this.isSigned(group, settlement_signer)) return
      // The own providers may be behind those of the leader, which saw its epoch before it wrote anything.
      const is_ahead = group.author.epoch > epoch && reads < LIMITS.follower_reads_max
      if (reads > 0 && !is_ahead) break
      if (reads > 0) await Bun.sleep(this.chain.view().slot_ms)
      this.vault = await this.chain.readConfig()
    }
    throw new EntryUnsigned(
      `not signed by the boot that the chain shows: the group that ends at ${group.seq}`,
    )
  }
}

const venueOf = ({ genesis_hash, program_id, config_account }: ChainPort, { generation }: VaultConfig) =>
  venueId({ genesis_hash, program_id, config_account, generation })
