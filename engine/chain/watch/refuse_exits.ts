/** Refuses exit requests for spent notes with a proof from the spent tree; the request's bond pays for it. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { refuseExitInstruction } from '../../../protocol/vault/exits'
import { LIMITS } from '../../limits'
import type { HashPort, SpentWitness } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { supervise } from '../client/health'
import { landInstruction } from '../client/land_instruction'
import { type OpenExit, readVaults, type VaultSnapshot } from '../client/read_vault'
import { ChainProgramError } from '../client/transaction_status'

type Hold = { batch_max: number; slot_max: number }

/**
 * The venue's spent tree runs ahead of the chain: a proof made after batch n is valid on chain once n has landed, while its
 * root is among the last 32. A proof is therefore kept until its root is known on chain and rebuilt once the root is too
 * old. Meanwhile no batch is signed more than a few behind n, or a busy venue would invalidate every proof.
 */
export class ExitRefusal {
  readonly #proofs = new Map<string, SpentWitness>()
  readonly #holds = new Map<string, Hold>()

  constructor(
    readonly client: ChainClient,
    readonly hash: Pick<HashPort, 'spentWitness'>,
    readonly requests: () => Iterable<OpenExit>,
  ) {}

  /** Runs until the client closes. */
  run(): Promise<void> {
    return supervise(this.client, async () => {
      await this.poll()
      const slots = this.batchMax() === Number.POSITIVE_INFINITY ? LIMITS.exits_look_slots : 1
      await this.client.rpc.sleep(slots * this.client.view.slotMs())
      return true
    })
  }

  /** The last batch that may be signed now. */
  batchMax(): number {
    const { slot } = this.client.view.now()
    const holds = [...this.#holds.values()].filter(({ slot_max }) => slot <= slot_max)
    return Math.min(...holds.map(({ batch_max }) => batch_max))
  }

  /** Resolves when every request that can be refused now is refused. @throws ChainUnavailable */
  async poll(): Promise<void> {
    const open = new Map([...this.requests()].map((request) => [toHex(request.nullifier), request]))
    for (const kept of [this.#proofs, this.#holds]) {
      for (const nullifier of kept.keys()) if (!open.has(nullifier)) kept.delete(nullifier)
    }
    if (open.size === 0) return
    const shown = (await readVaults(this.client, 'confirmed')).map(({ value }) => value)
    const known: [Uint8Array, SpentWitness][] = []
    for (const [name, { nullifier }] of open) {
      const proof = await this.#proofOf(name, nullifier, shown)
      if (!proof || !this.#isKnown(shown, proof)) continue
      const hold = this.#holds.get(name)!
      hold.slot_max = Math.min(hold.slot_max, this.client.view.now().slot + LIMITS.exit_refusal_cite_slots)
      known.push([nullifier, proof])
    }
    await Promise.all(known.map(([nullifier, proof]) => this.#refuse(nullifier, proof)))
  }

  async #proofOf(
    name: string,
    nullifier: Uint8Array,
    shown: readonly VaultSnapshot[],
  ): Promise<SpentWitness | undefined> {
    const kept = this.#proofs.get(name)
    const landed = this.client.rpc.reached(shown.map(({ config }) => config.last_batch)) ?? 0
    const is_past = kept && kept.last_batch_id <= landed && !this.#isKnown(shown, kept)
    if (kept && !is_past) return kept
    const fresh = await this.hash.spentWitness(nullifier)
    if (!fresh.present) return undefined
    this.#proofs.set(name, fresh)
    if (!this.#holds.has(name)) this.#holds.set(name, this.#holdFor(fresh))
    return fresh
  }

  #holdFor({ last_batch_id }: SpentWitness): Hold {
    const batch_max = last_batch_id + LIMITS.batches_behind_refusal_max
    return { batch_max, slot_max: this.client.view.now().slot + LIMITS.exit_refusal_hold_slots_max }
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
      await landInstruction(client, {
        prepare: async () => instruction,
        deadline_ms: LIMITS.exit_refusal_max_ms,
      })
    } catch (error) {
      // The batch that serves it, or another refuser, closed the request first; the next poll reads the outcome.
      if (!(error instanceof ChainProgramError)) throw error
    }
  }

  /** Whether a quorum of providers shows the proof's root as one that the program accepts. */
  #isKnown(shown: readonly VaultSnapshot[], { spent_root }: SpentWitness): boolean {
    const known = shown.filter(({ config, ring }) =>
      [config.spent_root, ...ring.spent_roots].some((root) => equalBytes(root, spent_root)),
    )
    return known.length >= this.client.rpc.quorum
  }
}
