/** Opens the venue from its configuration and ports, and re-exports the engine's public interface. */
import { openAccounts } from './accounts/open_accounts'
import { assemble, type OpenAccounts } from './boot/assemble'
import { levelOf } from './boot/check_chain'
import { Follower, openNode, untilLeading, VenueRestored } from './boot/follow'
import { loadState } from './boot/load_state'
import { isRestore, isRestoreFinal, restoredConfig } from './boot/restore'
import { start } from './boot/start'
import { close } from './boot/stop'
import { checkConfig, type EngineConfig } from './config'
import { followingNode } from './methods/front'
import { venueOf } from './methods/venue_methods'
import type { ChainPort, ClockPort, Fronts, HashPort, KeysPort, Warning } from './ports'
import type { FollowingNode, Venue } from './venue'

export { openOperatorCheck } from './accounts/verify_operator'
export { VaultAbsent } from './chain/client/read_vault'
export { openChain } from './chain/open_chain'
export { checkConfig } from './config'
export { openHashing } from './hashing/open_hashing'
export { portableCode } from './intake/arrivals'
export type * from './ports'
export type * from './venue'

type VenuePorts = {
  clock: ClockPort
  keys: KeysPort
  hash: HashPort
  chain: ChainPort
  /** Words of `reasons` that the process around the engine gives now; none without it. */
  warnings?: () => readonly Warning[]
  /** Called at most once: memory may be ahead of disk, so the process must exit without serving further requests. */
  fatal: (error: Error) => void
  /** Called once by a node of a cluster, before it follows. */
  following?: (node: FollowingNode) => Fronts
}

/** The configuration was rejected; `faults` has one sentence per invalid setting. */
class ConfigInvalid extends Error {
  override readonly name = 'ConfigInvalid'
  constructor(readonly faults: string[]) {
    super(`configuration refused:\n${faults.join('\n')}`)
  }
}

/**
 * Opens journal, snapshot and read models, replays, checks the chain against the journal and opens the next epoch.
 * Resolves once the epoch is finalized, in a cluster confirmed. When the chain contradicts the journal, resolves with a venue
 * that rejects every command and states the reason in `status()`. The venue owns the ports and closes them. A node of a cluster
 * follows the leader first, and resolves once it leads; one that has restored the venue ends, to serve it from its next start on.
 * @throws ConfigInvalid, VenueRestored, JournalDamaged, JournalLocked, ReplayDisagrees, or an error of the chain port
 */
export async function openVenue({
  config,
  ports,
}: {
  config: EngineConfig
  ports: VenuePorts
}): Promise<Venue> {
  const faults = checkConfig(config)
  if (faults.length > 0) throw new ConfigInvalid(faults)
  const { chain, clock, keys, fatal } = ports
  const { token_ttl_s } = config
  const [read, mints] = await Promise.all([chain.readConfig(levelOf(config)), chain.readMints()])
  const node = openNode(config, ports)
  const own = await loadState(config, ports, read, node && { thread: node.thread })
  const { credential_key } = keys
  const openBook: OpenAccounts = (book) => openAccounts({ credential_key, clock, token_ttl_s, book })
  const follower = node && new Follower(node, own, config, ports, own.vault, openBook)
  const fronts =
    follower && ports.following?.(followingNode(node, follower, config, ports, [own.vault, mints]))
  const { loaded, vault, ...newest } =
    follower === undefined
      ? { loaded: own, vault: own.vault, mints, views: undefined }
      : await untilLeading(follower, fatal)
  const restore = await isRestore(vault, loaded)
  const first = restore ? restoredConfig(vault) : vault
  const all = { ...ports, node, fronts }
  const engine = assemble(config, all, loaded, { config: first, mints: newest.mints }, openBook, newest.views)
  await start(engine, first, restore)
  if (restore && node !== undefined && (await isRestoreFinal(engine, first.generation))) {
    await close(engine)
    throw new VenueRestored()
  }
  return venueOf(engine)
}
