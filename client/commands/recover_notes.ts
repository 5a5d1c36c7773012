/** `wallet recover`: every note of a seed, from the public chain alone. */
import { existsSync } from 'node:fs'
import { openChainReader } from '../chain/chain_access'
import { readProofs } from '../chain/exit_note'
import { GAP_LIMITS, type GapLimits, recoverWallet } from '../wallet/recover'
import { saveWallet } from '../wallet/wallet_file'
import { printNotes } from './list_notes'
import { type CommandOptions, CommandRefused, readSeed } from './options'

/** Writes a wallet file; `--replace` writes over one, which forgets the orders that are live in it. */
export async function recoverNotes(options: CommandOptions): Promise<void> {
  const seed = readSeed(options.text('seed-file'))
  const path = options.text('wallet')
  if (existsSync(path) && !options.flag('replace'))
    throw new CommandRefused(`${path} exists: --replace writes over it`)
  const limits: GapLimits = {
    keys: options.count('gap-keys', GAP_LIMITS.keys),
    deposits: options.count('gap-deposits', GAP_LIMITS.deposits),
    commands: options.count('gap-commands', GAP_LIMITS.commands),
  }
  const proofs = await readProofs(openChainReader(options.text('rpc')), options.text('program'))
  proofs.check()
  const { history, vault } = proofs
  const read = `${history.leaves.length} leaves, ${history.spent.size} nullifiers`
  console.log(`history      ${read}: both roots are those of the vault at slot ${vault.slot}`)
  const wallet = recoverWallet(seed, history, vault.config.generation, limits)
  saveWallet(path, wallet)
  console.log(`wallet       ${path}`)
  printNotes(wallet, options.flag('all'))
}
