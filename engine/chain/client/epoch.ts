/** Opens the next epoch on chain and anchors the journal head. */
import { equalBytes } from '../../../protocol/bytes'
import { anchorInstruction, openEpochInstruction } from '../../../protocol/vault/epochs'
import { LIMITS } from '../../limits'
import { type ChainPort, EpochTaken } from '../../ports'
import type { ChainClient } from './chain_client'
import { type Landing, landInstruction } from './land_instruction'
import { readVault } from './read_vault'
import { ChainProgramError } from './transaction_status'

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
  let newest: Landing = { slot: 0, signature: new Uint8Array(64) }
  const prepare = async () => {
    const { config, slot } = await readVault(client, 'finalized')
    if (config.epoch === args.epoch && equalBytes(config.boot_nonce, args.boot_nonce)) {
      newest = { ...newest, slot: config.epoch_slot || slot }
      return undefined
    }
    if (config.epoch !== args.epoch - 1) throw new EpochTaken(`the chain is at epoch ${config.epoch}`)
    return openEpochInstruction({
      program: client.vault.program,
      settlement_signer: client.signer_key,
      epoch: args.epoch,
      boot_nonce: args.boot_nonce,
      compose_hash: args.compose_hash,
      journal_seq: args.seq,
      journal_head: args.head,
      restore: args.restore,
      generation: config.generation + (args.restore ? 1 : 0),
    })
  }
  const landing = await landInstruction(client, {
    prepare,
    record: async (signature, transaction) => {
      newest = { slot: 0, signature }
      await record(signature, transaction)
    },
  }).catch(asEpochTaken)
  return landing ?? newest
}

/** While the other epoch is not finalized yet, only the program's error reports it. */
function asEpochTaken(error: unknown): never {
  if (error instanceof ChainProgramError && error.failure.name === 'epoch_out_of_sequence') {
    throw new EpochTaken('the chain is already past this epoch')
  }
  throw error
}

/**
 * Stores the journal head on chain. Resolves once a journal position at or after `seq` is finalized.
 * @throws ChainProgramError, ChainUnavailable
 */
export async function anchor(
  client: ChainClient,
  epoch: number,
  seq: number,
  head: Uint8Array,
): Promise<void> {
  const prepare = async () => {
    const { config } = await readVault(client, 'finalized')
    if (config.journal_seq >= seq) return undefined
    const { program } = client.vault
    const position = { epoch, journal_seq: seq, journal_head: head }
    return anchorInstruction({ program, settlement_signer: client.signer_key, ...position })
  }
  try {
    await landInstruction(client, { prepare, deadline_ms: LIMITS.anchor_max_ms })
  } catch (error) {
    // A settlement with a newer head landed first, which makes this anchor unnecessary.
    if (!(error instanceof ChainProgramError && error.failure.name === 'journal_regressed')) throw error
  }
}
