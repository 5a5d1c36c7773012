/** Opens the ChainPort to Solana: one implementation for the embedded chain, devnet and mainnet. */

import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { decodeBase58 } from '../../protocol/base58'
import { LIMITS } from '../limits'
import type { ChainPort, HashPort } from '../ports'
import { type ChainClient, chainAddresses, type FeeSettings, type QuoteEpoch } from './client/chain_client'
import { anchor, Commits, keepEpoch, openEpoch, requireAnnounced } from './client/epoch'
import { ChainHealth } from './client/health'
import { readConfig, readGenesis, readMints } from './client/read_vault'
import { RpcPool } from './client/rpc_pool'
import { SlotView } from './client/slot_view'
import { PayLoop } from './relayer/pay'
import { Relayer } from './relayer/relayer'
import { settledHistories } from './watch/vault_events'
import { ExitEnds, ExitWatch } from './watch/watch_exits'
import { LeaseWatch } from './watch/watch_lease'
import { KnownStates, LeafWatch } from './watch/watch_leaves'
import { Verdicts, Watcher, watchPayer, watchSuccessors } from './watch/watcher'

export type ChainOptions = {
  /** JSON-RPC providers, at least one; two must agree, of more than two a majority. */
  rpc_urls: readonly string[]
  /** Endpoints that only receive transactions. Default none. */
  rpc_send_urls?: readonly string[]
  /** Vault program, 32 bytes. */
  program_id: Uint8Array
  /** Ed25519 seed of the settlement key of this boot, 32 bytes. */
  settlement_seed: Uint8Array
  /** Ed25519 seed of the announced epoch authority, 32 bytes. */
  authority_seed: Uint8Array
  /** A quote over the settlement key for an epoch. */
  quoteEpoch: QuoteEpoch
  /** Ed25519 seed of the fee payer, 32 bytes. */
  fee_seed: Uint8Array
  /** Mirror of the note tree, against which finalized roots are checked. */
  hash: HashPort
  /** Initial estimate of the slot time, until it is measured. Default 400. */
  slot_ms?: number
  /** Without a new confirmed slot for this long the chain counts as stalled. Default 25 slots, at least 5 s. */
  stall_ms?: number
  /** Deadline of one RPC request. Default 10 s. */
  rpc_timeout_ms?: number
  fees?: Partial<FeeSettings>
  /** Whether a vault that announced fewer than two builds, images or machines is degraded. Default false, as in a sandbox. */
  successors_needed?: boolean
  monotonicMs?: () => number
}

/** Half a cent to a few cents per batch; 0.1 SOL pays for some thousand batches. */
const FEES: FeeSettings = {
  percentile: 75,
  floor_lamports: 1_000n,
  cap_lamports: 2_000_000n,
  balance_min_lamports: 100_000_000n,
}

/**
 * Connects and reads genesis hash and vault once, then keeps the slot view up to date; watching and relaying begin with
 * `start`. Later RPC failures are retried and reported in `health`.
 * @throws VaultAbsent when the program has no vault, or one that has announced no epoch authority yet; VaultUnreadable;
 * ChainUnavailable when no endpoint answers
 */
export async function openChain(options: ChainOptions): Promise<ChainPort> {
  const client = await connect(options)
  const { rpc, view, health } = client
  const genesis_hash = await readGenesis(rpc)
  await requireAnnounced(client)
  const lease = new LeaseWatch(client)
  const loops: Promise<unknown>[] = [view.run(), lease.run(), watchPayer(client)]
  if (options.successors_needed) loops.push(watchSuccessors(client))
  let epoch = 0
  let commits: Commits | undefined
  while (view.now().unix_ms === 0 && !rpc.closed) await rpc.sleep(LIMITS.slot_poll_min_ms)
  return {
    genesis_hash,
    program_id: client.vault.program,
    config_account: client.vault.config,
    readConfig: (level) => readConfig(client, level),
    readMints: () => readMints(client),
    readSettled: (after) => settledHistories(client, after),
    view: () => view.now(),
    lease: () => lease.now(),
    health: () => health.report(),
    figures: () => health.figures(),
    async openEpoch(args, record) {
      lease.claim(args)
      const landing = await openEpoch(client, args, record)
      epoch = args.epoch
      lease.look()
      if (args.level === 'confirmed') loops.push(keepEpoch(client, args, record))
      return landing
    },
    start(args) {
      epoch = args.epoch
      lease.follow(() => args.outbox.head())
      commits = new Commits(client, epoch, () => args.outbox.head())
      loops.push(...startLoops(client, options.hash, args, commits))
    },
    anchor: (seq, own) => anchor(client, epoch, seq, own),
    commit: async (close, commit_ms) => commits?.decide(close, commit_ms),
    matched: (seq) => commits?.matched(seq),
    async close() {
      rpc.close()
      // A loop may be waiting for an engine that has already stopped.
      await Promise.race([Promise.allSettled(loops), Bun.sleep(LIMITS.chain_close_ms)])
    },
  }
}

async function connect(options: ChainOptions): Promise<ChainClient> {
  const slot_ms = options.slot_ms ?? 400
  const timeout_ms = options.rpc_timeout_ms ?? LIMITS.rpc_call_ms
  const rpc = new RpcPool(options.rpc_urls, timeout_ms, options.rpc_send_urls)
  const monotonicMs = options.monotonicMs ?? (() => performance.now())
  const health = new ChainHealth(rpc, monotonicMs, slot_ms)
  const signer = await createKeyPairSignerFromPrivateKeyBytes(options.settlement_seed)
  const authority = await createKeyPairSignerFromPrivateKeyBytes(options.authority_seed)
  const payer = await createKeyPairSignerFromPrivateKeyBytes(options.fee_seed)
  const view = new SlotView(rpc, health, {
    monotonicMs,
    slot_ms,
    stall_ms: options.stall_ms ?? Math.max(LIMITS.chain_stall_min_ms, LIMITS.chain_stall_slots * slot_ms),
  })
  return {
    rpc,
    health,
    view,
    signer,
    signer_key: decodeBase58(signer.address, 32)!,
    authority,
    authority_key: decodeBase58(authority.address, 32)!,
    quoteEpoch: options.quoteEpoch,
    payer,
    payer_key: decodeBase58(payer.address, 32)!,
    fees: { ...FEES, ...options.fees },
    ...chainAddresses(options.program_id),
  }
}

/** Starts every loop but the slot view and the payer's. The relayer signs nothing while a verdict of the watcher is in force. */
function startLoops(
  client: ChainClient,
  hash: HashPort,
  args: Parameters<ChainPort['start']>[0],
  commits: Commits,
): Promise<unknown>[] {
  const { sink, outbox, epoch, last_batch, own_boot_nonces } = args
  const { view } = client
  const states = new KnownStates(client.rpc.quorum)
  const verdicts = new Verdicts({ client, sink, outbox, epoch, last_batch, own_boot_nonces })
  const exits = new ExitWatch(client, sink, args.exits_open)
  const { monotonicMs } = view.options
  const relayer = new Relayer(client, { outbox, states, epoch, monotonicMs, verdicts, exits })
  const payments = new PayLoop(client, { sink, outbox, verdicts, unixMs: () => view.now().unix_ms })
  const ends = new ExitEnds(client, outbox, exits, verdicts)
  const leaves = new LeafWatch(client, hash, states, sink, args.leaf_count)
  const watcher = new Watcher(client, { verdicts, leaves, exits, commits }, () => relayer.newestFinal())
  view.onSlot((slot) => sink.slot(slot))
  return [watcher.run(), relayer.run(), payments.run(), payments.grow(), ends.run()]
}
