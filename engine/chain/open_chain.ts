/** Opens the ChainPort to Solana: one implementation for the embedded chain, devnet and mainnet. */

import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { decodeBase58 } from '../../protocol/base58'
import { LIMITS } from '../limits'
import type { ChainPort, HashPort } from '../ports'
import type { TransactionVersion } from './client/build_transaction'
import { type ChainClient, chainAddresses, type FeeSettings } from './client/chain_client'
import { anchor, openEpoch } from './client/epoch'
import { ChainHealth } from './client/health'
import { readConfig, readGenesisHash, readMints } from './client/read_vault'
import { RpcPool } from './client/rpc_pool'
import { SlotView } from './client/slot_view'
import { Relayer } from './relayer/relayer'
import { ExitRefusal } from './watch/refuse_exits'
import { readSettled } from './watch/settled'
import { ExitWatch } from './watch/watch_exits'
import { KnownStates, LeafWatch } from './watch/watch_leaves'
import { ConfigWatch, Watcher, watchPayer } from './watch/watcher'

export type ChainOptions = {
  /** JSON-RPC endpoints, at least one; with two or more the slot view needs two of them to agree. */
  rpc_urls: readonly string[]
  /** Vault program, 32 bytes. */
  program_id: Uint8Array
  /** Ed25519 seed of the settlement signer, which also pays fees; 32 bytes. */
  settlement_seed: Uint8Array
  /** Mirror of the note tree, against which finalized roots are checked. */
  hash: HashPort
  /** Initial estimate of the slot time, until it is measured. Default 400. */
  slot_ms?: number
  /** Without a new confirmed slot for this long the chain counts as stalled. Default 25 slots, at least 5 s. */
  stall_ms?: number
  /** Deadline of one RPC request. Default 10 s. */
  rpc_timeout_ms?: number
  fees?: Partial<FeeSettings>
  /** 0 for endpoints that do not forward v1 transactions. Default 1. */
  transactions?: TransactionVersion
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
 * @throws VaultUnreadable when the program has no vault; ChainUnavailable when no endpoint answers
 */
export async function openChain(options: ChainOptions): Promise<ChainPort> {
  const client = await connect(options)
  const { rpc, view, health } = client
  const genesis_hash = await readGenesisHash(rpc)
  await readConfig(client)
  const loops: Promise<unknown>[] = [view.run(), watchPayer(client)]
  let epoch = 0
  return {
    genesis_hash,
    program_id: client.vault.program,
    config_account: client.vault.config,
    readConfig: () => readConfig(client),
    readMints: () => readMints(client),
    readSettled: (after) => readSettled(client, after),
    view: () => view.now(),
    health: () => ({
      settlement: health.reasons().length > 0 ? 'degraded' : 'wired',
      reasons: health.reasons(),
    }),
    async openEpoch(args, record) {
      const landing = await openEpoch(client, args, record)
      epoch = args.epoch
      return landing
    },
    start(args) {
      epoch = args.epoch
      loops.push(...startLoops(client, options, args))
    },
    anchor: (seq, head) => anchor(client, epoch, seq, head),
    async close() {
      rpc.close()
      // A loop may be waiting for an engine that has already stopped.
      await Promise.race([Promise.allSettled(loops), Bun.sleep(LIMITS.chain_close_ms)])
    },
  }
}

async function connect(options: ChainOptions): Promise<ChainClient> {
  const slot_ms = options.slot_ms ?? 400
  const rpc = new RpcPool(options.rpc_urls, options.rpc_timeout_ms ?? LIMITS.rpc_call_ms)
  const health = new ChainHealth()
  const signer = await createKeyPairSignerFromPrivateKeyBytes(options.settlement_seed)
  const view = new SlotView(rpc, health, {
    monotonicMs: options.monotonicMs ?? (() => performance.now()),
    slot_ms,
    stall_ms: options.stall_ms ?? Math.max(LIMITS.chain_stall_min_ms, LIMITS.chain_stall_slots * slot_ms),
  })
  return {
    rpc,
    health,
    view,
    signer,
    signer_key: decodeBase58(signer.address, 32)!,
    fees: { ...FEES, ...options.fees },
    transactions: options.transactions ?? 1,
    ...chainAddresses(options.program_id),
  }
}

/** Starts watcher, relayer and exit refusal. The relayer signs nothing after the watcher has stopped this venue. */
function startLoops(
  client: ChainClient,
  options: ChainOptions,
  args: Parameters<ChainPort['start']>[0],
): Promise<unknown>[] {
  const { sink, outbox, epoch, last_batch, own_boot_nonces } = args
  const { view, health } = client
  const states = new KnownStates()
  const config = new ConfigWatch({ sink, outbox, health, last_batch, own_boot_nonces })
  const exits = new ExitWatch(client, sink, args.exits_open)
  const refusal = new ExitRefusal(client, options.hash, () => exits.finalized())
  const relayer = new Relayer(client, {
    outbox,
    sink,
    states,
    epoch,
    monotonicMs: options.monotonicMs ?? (() => performance.now()),
    ownBatch: (batch_id) => config.ownBatch(batch_id),
    batchMax: () => refusal.batchMax(),
  })
  const mismatch = (): void => {
    health.set('root_mismatch', true)
    sink.halted('root_mismatch')
  }
  const leaves = new LeafWatch(client, options.hash, states, sink, args.leaf_count)
  const watcher = new Watcher(client, config, leaves, exits, mismatch)
  view.onSlot((slot) => sink.slot(slot))
  return [watcher.run().finally(() => relayer.stop()), relayer.run(), refusal.run()]
}
