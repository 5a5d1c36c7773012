/**
 * Opens the engine as in production, with access to its internals for the set-up, on a chain in memory behind ChainPort: slots
 * pass, epochs open, every settlement batch lands at once.
 */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
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
import type {
  BatchDecision,
  BatchStage,
  ChainPort,
  ClosePosition,
  SignedBatch,
  VaultConfig,
  VaultMint,
} from '../../engine/ports'
import type { Venue } from '../../engine/venue'
import { fromHex } from '../../protocol/bytes'
import { signingKey } from '../../protocol/ed25519'
import { publicKeyOf } from '../../protocol/sign'
import { AdmissionRequest, CredentialRequest } from '../../protocol/wire/accounts'
import type { AccountLimits, TokenRequest } from '../../protocol/wire/trading'
import { parserOf } from '../../protocol/wire/values'
import { signAdmission } from '../../tools/account/call_operator'
import {
  ACCOUNTS,
  accountSeed,
  benchConfig,
  benchKeys,
  hexOf,
  MINTS,
  named,
  OPERATOR_SEED,
  ORDERS_OF_ACCOUNT,
} from './bench_config'

export const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }

export type BenchEngine = { engine: Engine; venue: Venue; chain: QuietChain }

/** @param cluster the journal's groups go through its log, which has no other writer */
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
  // The quiet chain's time does not move until it is started, and a leader would never be silent.
  const node = openNode(config, { ...ports, clock })
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

type StartArgs = Parameters<ChainPort['start']>[0]
/** State that a restart of the venue must find again. */
type Kept = Pick<VaultConfig, 'epoch' | 'last_batch' | 'journal_seq' | 'leaf_count'> & {
  slot: number
  boot_nonce: string
  journal_head: string
}

const FIRST: Kept = {
  slot: 100,
  epoch: 0,
  last_batch: 0,
  journal_seq: 0,
  leaf_count: 0,
  boot_nonce: '00'.repeat(16),
  journal_head: '00'.repeat(32),
}

class QuietChain implements ChainPort {
  readonly genesis_hash = named('genesis')
  readonly program_id = named('program')
  readonly config_account = named('config')
  private readonly kept: Kept
  private readonly file: string
  private args: StartArgs | undefined
  private timer: Timer | undefined
  /** When the newest slot came. */
  private slot_at_ms = performance.now()

  /** Remembers its head in `dir`. */
  constructor(
    dir: string,
    private readonly slot_ms: number,
  ) {
    this.file = join(dir, 'quiet-chain.json')
    this.kept = existsSync(this.file) ? (JSON.parse(readFileSync(this.file, 'utf8')) as Kept) : { ...FIRST }
  }

  get sink(): StartArgs['sink'] {
    return this.args!.sink
  }
  get leaf_count(): number {
    return this.kept.leaf_count
  }

  /** Leaves that a bench added to the journal without the watcher. */
  countLeaves(count: number): void {
    this.kept.leaf_count += count
  }

  async *readSettled(): AsyncGenerator<[]> {}

  async readConfig(): Promise<VaultConfig> {
    return {
      ...this.kept,
      slot: this.kept.slot,
      boot_nonce: Uint8Array.fromHex(this.kept.boot_nonce),
      journal_head: Uint8Array.fromHex(this.kept.journal_head),
      admin: named('admin'),
      settlement_signer: signingKey(named('settlement')).public_key,
      exit_delay_s: 604_800,
      generation: 0,
      commit_seq: 0,
      commit_head: new Uint8Array(32),
      spent_root: new Uint8Array(32),
      spent_count: 0,
      queue: { capacity: 60, next_number: 1, entries: [] },
      note_root: new Uint8Array(32),
      frozen: false,
      paused: false,
      pending: [],
      announced: [],
      outage: undefined,
    }
  }

  async readMints(): Promise<VaultMint[]> {
    return MINTS.map(({ mint, decimals }) => ({
      mint,
      vault: named('vault'),
      decimals,
      balance: 1n << 60n,
      liabilities: 1n << 60n,
      freezable: false,
      min_deposit: 1n,
      min_exit: 1n,
      slot: this.kept.slot,
    }))
  }

  /**
   * Elapsed time for the venue. At most one slot passes until the next one comes: a process that a loaded machine runs late must
   * not take that for a stall of the chain.
   */
  monotonicMs = (): number => {
    const since_ms = Math.min(performance.now() - this.slot_at_ms, this.slot_ms)
    return Math.floor(this.kept.slot * this.slot_ms + since_ms)
  }

  view() {
    return { slot: this.kept.slot, lag_ms: 0, slot_ms: this.slot_ms, unix_ms: Date.now() }
  }
  lease() {
    return { age_ms: 0, covered_seq: this.kept.journal_seq, restore_announced: false }
  }
  health(): ReturnType<ChainPort['health']> {
    return { settlement: 'wired', reasons: [], overdue: false }
  }
  figures() {
    return { providers: 1, providers_agreeing: 1, fee_payer_lamports: 1_000_000_000n }
  }

  async openEpoch(
    args: Parameters<ChainPort['openEpoch']>[0],
    record: (signature: Uint8Array, transaction: Uint8Array) => Promise<void>,
  ) {
    const signature = new Uint8Array(64)
    await record(signature, new Uint8Array(200))
    const { epoch, boot_nonce, seq, head } = args
    Object.assign(this.kept, { epoch, boot_nonce: hexOf(boot_nonce) })
    this.keepHead(seq, head)
    return { slot: this.kept.slot, signature, confirmed_ms: Number.NEGATIVE_INFINITY }
  }

  start(args: StartArgs): void {
    this.args = args
    this.timer = setInterval(() => {
      this.slot_at_ms = performance.now()
      args.sink.slot(++this.kept.slot)
    }, this.slot_ms)
    // Ends when the outbox does: a closed journal rejects.
    this.land(args).catch(() => undefined)
  }

  async anchor(_: number, { seq, head }: { seq: number; head: Uint8Array }): Promise<void> {
    this.keepHead(seq, head)
  }

  /** Every commit lands at once. */
  async commit({ seq, head, slot }: ClosePosition): Promise<BatchDecision> {
    this.keepHead(seq, head)
    return { outcome: 'committed', slot, epoch: this.kept.epoch, commit_seq: seq }
  }
  matched(): void {}

  async close(): Promise<void> {
    clearInterval(this.timer)
    this.args = undefined
  }

  private keepHead(seq: number, head: Uint8Array): void {
    Object.assign(this.kept, { journal_seq: seq, journal_head: hexOf(head) })
    writeFileSync(this.file, JSON.stringify(this.kept))
  }

  private async land({ outbox, sink }: StartArgs): Promise<void> {
    while (this.args !== undefined) {
      const batch_id = this.kept.last_batch + 1
      await outbox.waitForPayload(batch_id)
      const payload = outbox.payload(batch_id)
      if (payload === undefined) continue
      const signature = named(`batch ${batch_id}`, 64)
      const signed: SignedBatch = {
        batch_id,
        signature,
        transaction: new Uint8Array(1_200),
        last_valid_block_height: this.kept.slot + 150,
      }
      await outbox.recordSigned(signed)
      this.kept.last_batch = batch_id
      const first = this.kept.leaf_count
      this.kept.leaf_count += payload.outputs.length
      for (const stage of ['submitted', 'confirmed', 'finalized'] as const) {
        const fact: BatchStage = { batch_id, stage, signature, slot: this.kept.slot }
        await outbox.recordStage(fact)
      }
      const leaves = payload.outputs.map(({ commitment }) => commitment)
      await sink.leaves(first, leaves, this.kept.slot)
    }
  }
}
