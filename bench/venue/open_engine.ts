/** Opens the engine as in production but on the quiet chain, with access to its internals for the set-up. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { newCredential } from '../../client/wallet/account'
import { openAccounts } from '../../engine/accounts/open_accounts'
import { assemble, type Engine } from '../../engine/boot/assemble'
import { Follower, openNode, untilLeading } from '../../engine/boot/follow'
import { loadState } from '../../engine/boot/load_state'
import { start } from '../../engine/boot/start'
import type { EngineConfig } from '../../engine/config'
import { openHashing } from '../../engine/hashing/open_hashing'
import { venueOf } from '../../engine/methods/venue_methods'
import type { Venue } from '../../engine/venue'
import { fromHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { AdmissionRequest, CredentialRequest } from '../../protocol/wire/accounts'
import { parserOf } from '../../protocol/wire/parse'
import type { AccountLimits, TokenRequest } from '../../protocol/wire/trading'
import { signAdmission } from '../../tools/account/call_operator'
import {
  ACCOUNTS,
  accountSeed,
  benchConfig,
  benchKeys,
  OPERATOR_SEED,
  ORDERS_OF_ACCOUNT,
} from './bench_config'
import { QuietChain } from './quiet_chain'

export const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }

export type BenchEngine = { engine: Engine; venue: Venue; chain: QuietChain }

/** @param cluster the journal's groups go through its log, which nobody else writes */
export async function openEngine(
  dir: string,
  slot_ms = 400,
  cluster: Pick<EngineConfig, 'cluster'> = {},
): Promise<BenchEngine> {
  mkdirSync(dir, { recursive: true })
  const config = { ...benchConfig(dir), ...cluster }
  const keys = benchKeys()
  const chain = new QuietChain(dir, slot_ms)
  const hash = await openHashing({ dir: join(dir, 'hashing'), key: keys.journal_key })
  const fatal = (error: Error) => {
    console.error(error)
    process.exit(1)
  }
  const { monotonicMs } = chain
  const ports = { clock: { ...clock, monotonicMs }, hash, chain, keys, fatal }
  const [vault, mints] = [await chain.readConfig(), await chain.readMints()]
  // The time of the quiet chain stands until it is started, and a leader would never be silent.
  const node = openNode(config, { ...ports, clock }, vault)
  const loaded = await loadState(config, ports, vault, node && { thread: node.thread })
  if (node !== undefined) await untilLeading(new Follower(node, loaded, config, ports, vault), fatal)
  const { credential_key } = keys
  const { token_ttl_s } = config
  const engine = assemble(config, ports, loaded, { config: vault, mints }, (book) =>
    openAccounts({ credential_key, clock, token_ttl_s, book }),
  )
  await start(engine, vault)
  return { engine, venue: venueOf(engine), chain }
}

/** Admits accounts with limits that no bench reaches; returns their logins in order. */
export async function provisionAccounts(
  venue: Venue,
  orders_live_max = ORDERS_OF_ACCOUNT,
): Promise<TokenRequest[]> {
  const limits = {
    rate_capacity: 1_000_000,
    rate_refill_per_s: 1_000_000,
    orders_live_max,
    keys_max: 10_000,
  }
  const made: TokenRequest[] = []
  for (let at = 0; at < ACCOUNTS; at++) made.push(await provisionAccount(venue, accountSeed(at), limits))
  return made
}

/** Admits one account; returns its login. */
export async function provisionAccount(
  venue: Venue,
  seed: Uint8Array,
  limits: AccountLimits,
): Promise<TokenRequest> {
  const target = { operator_seed: OPERATOR_SEED, venue: fromHex(venue.identity().venue, 32)! }
  const terms = { account_key: publicKeyOf(seed), version: 1, state: 'active' as const, limits }
  await venue.admit(parserOf(AdmissionRequest)(signAdmission(terms, target)))
  const kind = { kind: 'trade' as const, version: 1, expiry_s: 0 }
  const { login, request } = await newCredential(seed, target.venue, kind)
  await venue.setCredential(undefined, parserOf(CredentialRequest)(request))
  return login
}
