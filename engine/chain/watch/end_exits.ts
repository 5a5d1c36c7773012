/** Ends exit requests on chain: closes served ones, so that the bond returns, and refuses those of spent notes. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { closeExitInstruction, refuseExitInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { LIMITS } from '../../limits'
import type { OutboxPort, SpentProof } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { supervise } from '../client/health'
import { landInstruction } from '../client/land_instruction'
import { Patience } from '../client/patience'
import { type OpenExit, readVaults } from '../client/read_vault'
import { ChainUnavailable } from '../client/rpc_pool'
import { ChainProgramError } from '../client/transaction_status'
import type { ExitWatch } from './watch_exits'
import type { Verdicts } from './watcher'

export class ExitEnds {
  private readonly patience = new Patience<string>()

  constructor(
    private readonly client: ChainClient,
    private readonly outbox: Pick<OutboxPort, 'spentProof'>,
    private readonly exits: Pick<ExitWatch, 'finalized'>,
    private readonly verdicts: Pick<Verdicts, 'isDisowned'>,
  ) {}

  /** Runs until the client closes or another instance holds the vault. */
  run(): Promise<void> {
    const { rpc, view } = this.client
    return supervise(this.client, async () => {
      const { requests, batch_count } = this.exits.finalized()
      this.patience.keep(new Set(requests.map(({ nullifier }) => toHex(nullifier))))
      const due: OpenExit[] = []
      for (const request of requests) if (await this.isDue(request, batch_count)) due.push(request)
      await Promise.all(due.slice(0, LIMITS.payments_in_flight_max).map((request) => this.end(request)))
      await rpc.sleep(LIMITS.exits_look_slots * view.slotMs())
      return !this.verdicts.isDisowned()
    })
  }

  /** @param batch_count batches that had landed when the request was read: a later one may have served it meanwhile */
  private async isDue({ nullifier, served }: OpenExit, batch_count: number): Promise<boolean> {
    if (!this.patience.mayTry(toHex(nullifier), this.client.view.now().slot)) return false
    return served || (await this.outbox.spentProof(nullifier, batch_count)) !== undefined
  }

  private async end({ nullifier, bond_payer, served }: OpenExit): Promise<void> {
    const { client } = this
    const close = () => closeExitInstruction({ program: client.vault.program, nullifier, bond_payer })
    const prepare = async () => (served ? close() : this.refusal(nullifier))
    try {
      await landInstruction(client, { prepare, deadline_ms: LIMITS.exit_end_max_ms })
    } catch (error) {
      // Another sender ended the request first, or its bond payer cannot receive.
      if (!(error instanceof ChainProgramError || error instanceof ChainUnavailable)) throw error
    }
    // Finalized means ended; the next reading that still shows it is an earlier one or shows a failure.
    this.patience.failed(toHex(nullifier), client.view.now().slot)
  }

  /**
   * Cites a root of the ring, which the program knows for a while; without one the present root, which the next batch may
   * end. @throws ChainUnavailable
   */
  private async refusal(nullifier: Uint8Array): Promise<VaultInstruction | undefined> {
    const { client, outbox } = this
    const shown = (await readVaults(client, 'confirmed')).map(({ value }) => value)
    const isKept = ({ root }: SpentProof) =>
      shown.filter(({ ring }) => ring.states.some(({ spent_root }) => equalBytes(spent_root, root))).length >=
      client.rpc.quorum
    const last_batch = client.rpc.reached(shown.map(({ config }) => config.last_batch)) ?? 0
    let cited: SpentProof | undefined
    for (let count = last_batch; count > last_batch - LIMITS.exit_refusal_roots_max; count--) {
      const proof = await outbox.spentProof(nullifier, count)
      if (!proof) break
      cited ??= proof
      if (!isKept(proof)) continue
      cited = proof
      break
    }
    if (!cited) return undefined
    return refuseExitInstruction({
      program: client.vault.program,
      refuser: client.payer_key,
      nullifier,
      cited_spent_root: cited.root,
      batch: cited.batch_id,
      nullifiers: cited.nullifiers,
      path: cited.siblings,
    })
  }
}
