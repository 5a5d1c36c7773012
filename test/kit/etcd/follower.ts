/** A node that follows, from the parts that `openVenue` joins: it opens no epoch when it takes over, and can be stopped. */

import { Follower as Following, openNode, untilLeading } from '../../../engine/boot/follow'
import { type Loaded, loadState } from '../../../engine/boot/load_state'
import type { EngineConfig } from '../../../engine/config'
import type { VaultConfig } from '../../../engine/ports'
import type { EmbeddedSite } from '../venue/embedded_site'

export type Follower = {
  loaded: Loaded
  /** Resolves once it has taken over. */
  leading: Promise<Loaded>
  stop: () => Promise<void>
}

export async function follower(
  site: EmbeddedSite,
  dir: string,
  cluster: Pick<EngineConfig, 'cluster'>,
  /** The vault as it was read at the start of the node. */
  read = (vault: VaultConfig) => vault,
): Promise<Follower> {
  const { config, ports } = await site.parts(dir, cluster)
  const vault = read(await ports.chain.readConfig())
  const member = openNode(config, ports)!
  const loaded = await loadState(config, ports, vault, { thread: member.thread })
  const following = new Following(member, loaded, config, ports, vault)
  const leading = untilLeading(following, ports.fatal).then((one) => one.loaded)
  leading.catch(() => undefined)
  const stop = async () => {
    member.stop()
    await leading.catch(() => undefined)
    await loaded.journal.close()
    await loaded.history.close()
    loaded.facts.close()
    loaded.stores.close()
    await ports.chain.close()
    await ports.hash.close()
  }
  return { loaded, leading, stop }
}
