/** Runs `wallet recover` and `wallet sync`, from the seed and the public chain alone. */
import { existsSync, rmSync } from 'node:fs'
import type { ChainReader } from '../chain/chain_access'
import { keptProofs } from '../chain/kept_proofs'
import type { VaultProofs } from '../exit/vault_proofs'
import { GAP_LIMITS } from '../limits'
import { Refused } from '../verify/transcript'
import { absorbRecovered } from '../wallet/absorb_recovered'
import { type GapLimits, recoverWallet } from '../wallet/recover'
import type { Wallet } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { type CommandOptions, lockWallet } from './options'
import { printNotes } from './wallet_commands'

/** Transactions between two lines of progress. */
const PROGRESS_EVERY = 1_000

/**
 * Reads the public history up to now, keeps it beside the wallet and checks it against the vault.
 * @throws HistoryIncomplete, NotAVault, ProofUnavailable
 */
export async function currentProofs(options: CommandOptions, chain: ChainReader): Promise<VaultProofs> {
  const path = historyPath(options)
  const progress = (count: number): void => {
    if (count % PROGRESS_EVERY === 0) console.error(`${count} transactions read`)
  }
  const { proofs, kept, read } = await keptProofs(chain, options.program(), path, progress)
  const { history, vault } = proofs
  const held = `${history.leaves.length} leaves, ${history.spent.size} nullifiers`
  console.log(`history      ${held}: both roots are those of the vault at slot ${vault.slot}`)
  console.log(`             ${read} transactions read, ${kept} known before (${path})`)
  return proofs
}

function historyPath(options: CommandOptions): string {
  return `${options.text('wallet')}.history`
}

/**
 * Reads the whole history from the node again: nothing on disk is trusted. `--replace` overwrites a wallet file and so
 * drops its live orders.
 */
export async function recoverNotes(options: CommandOptions): Promise<void> {
  const seed = options.seed('seed-file')
  const path = options.text('wallet')
  if (existsSync(path) && !options.flag('replace'))
    throw new Refused(`${path} exists: 'sync' brings it up to date, --replace writes over it`)
  lockWallet(path)
  const chain = options.reader()
  rmSync(historyPath(options), { force: true })
  const wallet = recovered(options, seed, await currentProofs(options, chain))
  saveWallet(path, wallet)
  console.log(`wallet       ${path}`)
  printNotes(wallet, options.flag('all'))
  if (wallet.state.notes.length === 0)
    console.log('this seed has none in this vault: is it the right one, and are GAPS wide enough?')
}

/** Reads only newer transactions, adds missing notes and marks spent ones. */
export async function syncNotes(options: CommandOptions): Promise<void> {
  const wallet = options.walletToChange()
  const proofs = await currentProofs(options, options.reader())
  const found = recovered(options, wallet.seed, proofs)
  const { added, spent } = absorbRecovered(wallet, found, proofs.history)
  saveWallet(options.text('wallet'), wallet)
  console.log(`wallet       ${added.length} notes new, ${spent.length} found spent`)
  printNotes(wallet, options.flag('all'))
}

function recovered(options: CommandOptions, seed: Uint8Array, { history, vault }: VaultProofs): Wallet {
  const limits: GapLimits = {
    keys: options.count('gap-keys', GAP_LIMITS.keys),
    deposits: options.count('gap-deposits', GAP_LIMITS.deposits),
    commands: options.count('gap-commands', GAP_LIMITS.commands),
  }
  return recoverWallet(seed, history, vault.config.generation, limits)
}
