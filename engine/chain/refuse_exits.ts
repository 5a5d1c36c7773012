/** Refuses exit requests for notes that are spent already, with a proof from the spent tree; the bond pays for it. */
import { equalBytes, toHex } from '../../protocol/bytes'
import { refuseExitInstruction } from '../../protocol/vault/refuse_exit'
import type { HashPort, SpentWitness } from '../ports'
import type { ChainClient } from './chain_client'
import { landInstruction } from './land_instruction'
import type { OpenExit } from './read_exit_requests'
import { readVault, type VaultSnapshot } from './read_vault'
import { supervise } from './supervise'
import { ChainProgramError } from './transaction_failure'

/** Requests have days; a look costs one request to the chain while any is open. */
const LOOK_SLOTS = 8
const DEADLINE_MS = 60_000

/**
 * The own spent tree runs ahead of the chain: a proof made after batch n holds on chain once n has landed, and as long as
 * its root is among the last 32. So a proof is kept until its root is known there, and made anew when it is past.
 */
export class ExitRefusal {
  readonly #proofs = new Map<string, SpentWitness>()

  constructor(
    readonly client: ChainClient,
    readonly hash: Pick<HashPort, 'spentWitness'>,
    readonly requests: () => Iterable<OpenExit>,
  ) {}

  /** Runs until the client closes. */
  run(): Promise<void> {
    return supervise(this.client, async () => {
      await this.look()
      await this.client.rpc.sleep(LOOK_SLOTS * this.client.view.slotMs())
      return true
    })
  }

  /** Resolves when every request that can be refused now is. @throws ChainUnavailable */
  async look(): Promise<void> {
    const open = new Map([...this.requests()].map((request) => [toHex(request.nullifier), request]))
    for (const nullifier of this.#proofs.keys()) if (!open.has(nullifier)) this.#proofs.delete(nullifier)
    if (open.size === 0) return
    const vault = await readVault(this.client, 'confirmed')
    for (const [name, { nullifier }] of open) {
      const proof = await this.#proofOf(name, nullifier, vault)
      if (proof && isKnown(vault, proof)) await this.#refuse(nullifier, proof)
    }
  }

  async #proofOf(
    name: string,
    nullifier: Uint8Array,
    vault: VaultSnapshot,
  ): Promise<SpentWitness | undefined> {
    const kept = this.#proofs.get(name)
    const is_past = kept && kept.last_batch_id <= vault.config.last_batch && !isKnown(vault, kept)
    if (kept && !is_past) return kept
    const fresh = await this.hash.spentWitness(nullifier)
    if (!fresh.present) return undefined
    this.#proofs.set(name, fresh)
    return fresh
  }

  async #refuse(nullifier: Uint8Array, proof: SpentWitness): Promise<void> {
    const { client } = this
    const { spent_root: cited_spent_root, next_value, leaf_index, siblings: path } = proof
    const instruction = refuseExitInstruction({
      program: client.vault.program,
      refuser: client.signer_key,
      nullifier,
      cited_spent_root,
      next_value,
      leaf_index,
      path,
    })
    try {
      await landInstruction(client, { prepare: async () => instruction, deadline_ms: DEADLINE_MS })
    } catch (error) {
      // The batch that serves it, or anyone else, closed the request first; the next look shows what is true.
      if (!(error instanceof ChainProgramError)) throw error
    }
  }
}

function isKnown({ config, ring }: VaultSnapshot, { spent_root }: SpentWitness): boolean {
  return [config.spent_root, ...ring.spent_roots].some((root) => equalBytes(root, spent_root))
}
