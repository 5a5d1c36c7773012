/** Stores the journal head on chain when nothing settles. */
import { anchorInstruction } from '../../protocol/vault/anchor'
import type { ChainClient } from './chain_client'
import { landInstruction } from './land_instruction'
import { readVault } from './read_vault'
import { ChainProgramError } from './transaction_failure'

/** A shutdown waits for its anchor, but not for a chain that stands still. */
const DEADLINE_MS = 60_000

/**
 * Resolves once a journal position at or after `seq` is finalized on chain.
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
    await landInstruction(client, { prepare, deadline_ms: DEADLINE_MS })
  } catch (error) {
    // A settlement with a newer head came first: the chain knows more than this anchor would have told it.
    if (!(error instanceof ChainProgramError && error.failure.name === 'journal_regressed')) throw error
  }
}
