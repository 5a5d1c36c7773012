/** Runs `wallet recover` and `wallet sync`, from the seed and the public chain alone. */
import { existsSync, rmSync } from 'node:fs'
import { toHex } from '../../protocol/bytes'
import type { ChainReader } from '../chain/chain_access'
import { BatchDiffers, type CurrentHistory, confirmBatches, currentHistory } from '../chain/current_history'
import { nullifierOfNote } from '../exit/prepare_exit'
import { GAP_LIMITS } from '../limits'
import { Refused } from '../verify/transcript'
import { absorbFrozen, absorbRecovered } from '../wallet/absorb_recovered'
import { type GapLimits, RecoveryIncomplete, recoverWallet } from '../wallet/recover'
import type { Wallet } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { type CommandOptions, lockPath } from './options'
import { printNotes } from './wallet_commands'

/** Transactions between two lines of progress. */
const PROGRESS_EVERY = 1_000

/**
 * Reads the public history up to now, from `--archive` or the archive beside the wallet and what came after it, and checks it
 * against the vault. @param again reads everything from the node, and replaces the archive beside the wallet
 * @throws HistoryIncomplete, NotAVault, ProofUnavailable, ArchiveRejected, NodesDisagree
 */
export async function readHistory(
  options: CommandOptions,
  chain: ChainReader,
  again = false,
): Promise<CurrentHistory> {
  const archive = options.optional('archive')
  if (archive === undefined) lockPath(options.text('wallet'))
  const from = archive === undefined ? { folder: historyPath(options) } : { archive }
  const current = await currentHistory(chain, options.program(), from, reporting(), again)
  console.log(`history      ${described(current)}`)
  return current
}

/** Prints progress and what nodes do not list, on the error stream. */
export const reporting = () => ({
  progress(count: number): void {
    if (count % PROGRESS_EVERY === 0) console.error(`${count} transactions read`)
  },
  notice: (sentence: string): void => console.error(sentence),
})

export function described({ proofs, archive, kept, read }: CurrentHistory): string {
  const { history, vault } = proofs
  const held = `${history.leaves.length} leaves, ${history.spent.size} nullifiers`
  const known = `${kept} in ${archive.block_count} blocks of ${archive.where}`
  const damaged = archive.damaged === undefined ? '' : `, whose block ${archive.damaged} is torn or damaged`
  return `${held}: both roots are those of the vault at slot ${vault.slot}
             ${read} transactions read, ${known}${damaged}`
}

/** Of a wallet's own. */
const historyPath = (options: CommandOptions): string => `${options.text('wallet')}.history`

/**
 * Reads the whole history from the node again: nothing on disk is trusted. `--replace` overwrites a wallet file and so
 * drops its live orders.
 */
export async function recoverNotes(options: CommandOptions): Promise<void> {
  const seed = options.seed('seed-file')
  const path = options.text('wallet')
  if (existsSync(path) && !options.flag('replace'))
    throw new Refused(`${path} exists: 'sync' brings it up to date, --replace writes over it`)
  lockPath(path)
  const chain = options.reader()
  rmSync(historyPath(options), { force: true, recursive: true })
  const { wallet } = await recovered(options, seed, chain)
  const password = options.password()
  saveWallet(path, wallet, { replace: true, ...(password === undefined ? {} : { password }) })
  console.log(`wallet       ${path}`)
  printNotes(wallet, options.flag('all'))
  if (wallet.state.notes.length === 0)
    console.log('this seed has none in this vault: is it the right one, and are GAPS wide enough?')
}

/** Reads only newer transactions, adds missing notes and marks spent ones. */
export async function syncNotes(options: CommandOptions): Promise<void> {
  const wallet = options.walletToChange()
  const found = await recovered(options, wallet.seed, options.reader())
  const { history, vault } = found.proofs
  const absorb = vault.config.frozen ? absorbFrozen : absorbRecovered
  const { added, spent } = absorb(wallet, found.wallet, history)
  saveWallet(options.text('wallet'), wallet)
  console.log(`wallet       ${added.length} notes new, ${spent.length} found spent`)
  printNotes(wallet, options.flag('all'))
}

/**
 * Every note of a seed, after the batches that spent its notes were compared with the nodes. Where they have another batch than
 * the archive beside the wallet, an earlier node lied about it, or one lies now: all is read again.
 * @throws RecoveryIncomplete unless `--partial` keeps what was found, and as `readHistory` and `confirmBatches`
 */
export async function recovered(options: CommandOptions, seed: Uint8Array, chain: ChainReader) {
  const limits: GapLimits = {
    keys: options.count('gap-keys', GAP_LIMITS.keys),
    deposits: options.count('gap-deposits', GAP_LIMITS.deposits),
    commands: options.count('gap-commands', GAP_LIMITS.commands),
  }
  const search = async (again: boolean) => {
    const current = await readHistory(options, chain, again)
    const { history, vault } = current.proofs
    const { wallet, incomplete } = searched(() =>
      recoverWallet(seed, history, vault.config.generation, limits),
    )
    const spent_in = new Set<number>()
    for (const note of wallet.state.notes) {
      const batch = history.spent.get(toHex(nullifierOfNote(note)))
      if (batch !== undefined) spent_in.add(batch)
    }
    const unserved = await confirmBatches(chain, options.program(), current, { spent_in, seed })
    if (unserved > 0) console.error(`${unserved} batches of this wallet ${UNSERVED}`)
    if (incomplete !== undefined && !options.flag('partial')) throw incomplete
    if (incomplete !== undefined) console.error(incomplete.message)
    return { wallet, proofs: current.proofs }
  }
  return search(false).catch((error: Error) => {
    if (!(error instanceof BatchDiffers) || options.optional('archive') !== undefined) throw error
    console.error(`${error.message}; everything is read again`)
    return search(true)
  })
}

function searched(recover: () => Wallet): { wallet: Wallet; incomplete?: RecoveryIncomplete } {
  try {
    return { wallet: recover() }
  } catch (error) {
    if (!(error instanceof RecoveryIncomplete)) throw error
    return { wallet: error.wallet, incomplete: error }
  }
}

const UNSERVED =
  'were shown by fewer than two of the nodes, or by none of one: a misstated memo would hide a note, so ask others or compare with an archive'
