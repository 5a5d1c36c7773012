/** Copies of seeds that never see a venue: brought up to date from a kept history while the session goes on. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { openChainReader } from '../../client/chain/chain_access'
import { currentHistory } from '../../client/chain/current_history'
import { absorbRecovered } from '../../client/wallet/absorb_recovered'
import { type GapLimits, recoverWallet } from '../../client/wallet/recover'
import { Wallet } from '../../client/wallet/wallet'
import { chainFolder } from '../kit/chain/chain_folder'

export class Followers {
  private readonly folder = chainFolder()
  private readonly path = join(this.folder.dir, 'wallet.json.history')
  wallets: Wallet[] = []

  constructor(
    private readonly of: { seeds: Uint8Array[]; rpc_url: string; program_id: string; limits: GapLimits },
  ) {
    this.forget()
  }

  /** Nothing is left but the seeds. */
  forget(): void {
    rmSync(this.path, { force: true, recursive: true })
    this.wallets = this.of.seeds.map((seed) => new Wallet(seed))
  }

  /** @returns transactions the node was asked for. */
  async follow(): Promise<number> {
    const { rpc_url, program_id, limits } = this.of
    const from = { folder: this.path }
    const { proofs, read } = await currentHistory(openChainReader(rpc_url), program_id, from)
    const { history, vault } = proofs
    for (const wallet of this.wallets)
      absorbRecovered(wallet, recoverWallet(wallet.seed, history, vault.config.generation, limits), history)
    return read
  }

  remove(): void {
    this.folder.remove()
  }
}

/** What a note is, apart from how it came to be. */
export function notesOf(wallet: Wallet) {
  const notes = wallet.state.notes.map(({ origin, ...note }) => note)
  return notes.sort((a, b) => (a.commitment < b.commitment ? -1 : 1))
}
