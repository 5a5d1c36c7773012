/** The venue behind one door: opens everything from the configuration and the ports, and answers as `Venue`. */
import { openAccounts } from './accounts/open_accounts'
import { assemble } from './boot/assemble'
import { loadState } from './boot/load_state'
import { isRestore, restoredConfig } from './boot/restore'
import { start } from './boot/start'
import { checkConfig, type EngineConfig } from './config'
import { restoreAccounts } from './operator'
import type { ChainPort, ClockPort, HashPort, KeysPort } from './ports'
import type { Venue } from './venue'
import { venueOf } from './venue_methods'

export { openOperatorCheck } from './accounts/verify_operator'
export { VaultAbsent } from './chain/client/read_vault'
export { openChain } from './chain/open_chain'
export { checkConfig } from './config'
export { openHashing } from './hashing/open_hashing'
export type * from './ports'
export type * from './venue'

type VenuePorts = {
  clock: ClockPort
  keys: KeysPort
  hash: HashPort
  chain: ChainPort
  /** The process must end: memory may be ahead of disk, so nothing may be served any more. Called at most once. */
  fatal: (error: Error) => void
}

/** Settings that cannot be used; `faults` names every one of them. */
class ConfigInvalid extends Error {
  override readonly name = 'ConfigInvalid'
  constructor(readonly faults: string[]) {
    super(`configuration refused:\n${faults.join('\n')}`)
  }
}

/**
 * Opens journal, snapshot and read models, replays, checks the chain against the journal and takes the next epoch.
 * Resolves once the epoch is finalized, or with a venue that refuses every command and says why in `status()` when the
 * chain contradicts the journal. The venue closes the ports it was given.
 * @throws ConfigInvalid, JournalDamaged, JournalLocked, ReplayDisagrees, or what the chain port throws.
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
  const { chain, clock, keys } = ports
  const [vault, mints] = await Promise.all([chain.readConfig(), chain.readMints()])
  const loaded = await loadState(config, ports)
  const { credential_key } = keys
  const { operator_key, token_ttl_s } = config
  const accounts = await openAccounts({ credential_key, operator_key, clock, token_ttl_s })
  const restore = isRestore(config, vault, loaded.state)
  const first = restore ? restoredConfig(vault) : vault
  const engine = assemble(config, ports, loaded, { config: first, mints })
  restoreAccounts(engine, accounts)
  await start(engine, first, restore)
  return venueOf(engine, accounts)
}
