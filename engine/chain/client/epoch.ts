/** Opens the next epoch on chain and anchors the journal head. */
import { equalBytes } from '../../../protocol/bytes'
import { anchorInstruction, openEpochInstruction } from '../../../protocol/vault/epochs'
import type { VaultErrorName } from '../../../protocol/vault/errors'
import { LIMITS } from '../../limits'
import { type ChainPort, EpochTaken } from '../../ports'
import type { ChainClient } from './chain_client'
import { type Landing, landInstruction } from './land_instruction'
import { readAgreedVault, readVaults } from './read_vault'
import { ChainProgramError } from './transaction_status'

/** A batch, a deposit or a position landed after the vault was read: the next reading states it. */
const OUTDATED: readonly VaultErrorName[] = ['batch_out_of_sequence', 'unknown_state', 'position_outdated']

/**
 * Opens the next epoch on chain, which fences every earlier instance of this venue. Resolves once finalized; immediately if
 * the chain already has this epoch with this boot nonce.
 * @throws EpochTaken, ChainProgramError, ChainUnavailable
 */
export async function openEpoch(
  client: ChainClient,
  args: Parameters<ChainPort['openEpoch']>[0],
  record: Parameters<ChainPort['openEpoch']>[1],
): Promise<Landing> {
  const { monotonicMs } = client.view.options
  let newest: Landing = { slot: 0, signature: new Uint8Array(64), confirmed_ms: 0 }
  const prepare = async () => {
    const { config, tree, ring, slot } = await readAgreedVault(client)
    if (config.epoch === args.epoch && equalBytes(config.boot_nonce, args.boot_nonce)) {
      newest = { ...newest, slot: config.epoch_slot || slot, confirmed_ms: monotonicMs() }
      return undefined
    }
    if (config.epoch !== args.epoch - 1) throw new EpochTaken(`the chain is at epoch ${config.epoch}`)
    // The opening expects this position, so none that another instance stores meanwhile is passed over.
    const { journal_seq: seq, journal_head: expected_head } = config
    if (!(await args.passes({ seq, head: expected_head })))
      throw new EpochTaken('the chain has a position that this journal lacks')
    // The own root: the epoch opens only where the batches on chain are those of this journal.
    const spent_root = await args.spentRoot(config.last_batch)
    if (spent_root === undefined) throw new EpochTaken('the chain has batches that this journal lacks')
    // A state of the ring stays known while deposits land.
    const kept = ring.states.findLast(({ leaf_count }) => leaf_count >= config.settled_leaf_count)
    const cited = kept ?? tree
    return openEpochInstruction({
      program: client.vault.program,
      settlement_signer: client.signer_key,
      epoch: args.epoch,
      boot_nonce: args.boot_nonce,
      compose_hash: args.compose_hash,
      journal_seq: args.seq,
      journal_head: args.head,
      expected_head,
      restore: args.restore,
      generation: config.generation + (args.restore ? 1 : 0),
      last_batch: config.last_batch,
      spent_root,
      cited_leaf_count: cited.leaf_count,
      cited_root: cited.root,
    })
  }
  const landing = await landInstruction(client, {
    prepare,
    retried: OUTDATED,
    record: async (signature, transaction) => {
      newest = { ...newest, signature }
      await record(signature, transaction)
    },
  }).catch(asEpochTaken)
  return landing ?? newest
}

/** Another epoch or position landed meanwhile; while it is not finalized yet, only the program's error reports it. */
const OVERTAKEN: readonly string[] = ['epoch_out_of_sequence', 'journal_regressed', 'journal_conflict']

function asEpochTaken(error: unknown): never {
  const name = error instanceof ChainProgramError ? error.failure.name : undefined
  if (name === undefined || !OVERTAKEN.includes(name)) throw error
  throw new EpochTaken('the chain is already past this epoch')
}

/**
 * Stores `own` on chain unless the position there covers record `seq` already. Resolves once one that does is finalized.
 * @throws ChainProgramError, ChainUnavailable
 */
export async function anchor(
  client: ChainClient,
  epoch: number,
  seq: number,
  own: { seq: number; head: Uint8Array },
): Promise<void> {
  const prepare = async () => {
    if ((await readPosition(client, own)) >= seq) return undefined
    const { program } = client.vault
    const limits = { not_after_slot: 0, not_after_s: 0 }
    const position = { epoch, journal_seq: own.seq, journal_head: own.head, ...limits }
    return anchorInstruction({ program, settlement_signer: client.signer_key, ...position })
  }
  await landInstruction(client, { prepare, deadline_ms: LIMITS.anchor_landing_max_ms })
}

/** The finalized journal position that a quorum of providers shows; one that is not of the own journal does not count. */
async function readPosition(client: ChainClient, own: { seq: number; head: Uint8Array }): Promise<number> {
  const positions = (await readVaults(client, 'finalized')).map(({ value: { config } }) => {
    const is_own =
      config.journal_seq < own.seq ||
      (config.journal_seq === own.seq && equalBytes(config.journal_head, own.head))
    return is_own ? config.journal_seq : 0
  })
  return client.rpc.reached(positions) ?? 0
}
