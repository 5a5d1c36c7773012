/** `tacit wallet recover` and `wallet sync`: find notes from the seed and the public chain alone. */
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
import type { Call, Verb } from './call'
import { lockPath } from './config'
import { printNotes } from './tables'

/**
 * An archive in place of the own history; how many unused places in a row end a search. A search that ends before every
 * spent note has its command fails.
 */
export const ARCHIVED = '[--archive FOLDER|URL]'
export const GAPS = '[--gap-keys 20] [--gap-deposits 1000] [--gap-commands 1000000] [--partial]'

/** Transactions between two lines of progress. */
const PROGRESS_EVERY = 1_000

/**
 * Reads the public history up to now, from `--archive` or the archive beside the wallet and what came after it, and checks it
 * against the vault. @param again reads everything from the node, and replaces the archive beside the wallet
 * @throws HistoryIncomplete, NotAVault, ProofUnavailable, ArchiveRejected, NodesDisagree
 */
export async function readHistory(call: Call, chain: ChainReader, again = false): Promise<CurrentHistory> {
  const archive = call.optional('archive')
  if (archive === undefined) lockPath(call.text('wallet'))
  const from = archive === undefined ? { folder: historyPath(call) } : { archive }
  const current = await currentHistory(chain, call.program(), from, reporting(), again)
  call.say('history', described(current))
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
const historyPath = (call: Call): string => `${call.text('wallet')}.history`

/**
 * Reads the whole history from the node again: nothing on disk is trusted. `--replace` overwrites a wallet file and so
 * drops its live orders.
 */
async function recoverNotes(call: Call): Promise<void> {
  const seed = call.seed('seed-file')
  const path = call.text('wallet')
  if (existsSync(path) && !call.flag('replace'))
    throw new Refused(`${path} exists: 'sync' brings it up to date, --replace writes over it`)
  lockPath(path)
  const chain = call.reader()
  rmSync(historyPath(call), { force: true, recursive: true })
  const { wallet } = await recovered(call, seed, chain)
  const password = call.password()
  saveWallet(path, wallet, { replace: true, ...(password === undefined ? {} : { password }) })
  call.say('wallet', path)
  printNotes(call, wallet, call.flag('all'))
  if (wallet.state.notes.length === 0)
    call.hint('this seed has none in this vault: is it the right one, and are GAPS wide enough?')
}

/** Reads only newer transactions, adds missing notes and marks spent ones. */
async function syncNotes(call: Call): Promise<void> {
  const wallet = call.walletToChange()
  const found = await recovered(call, wallet.seed, call.reader())
  const { history, vault } = found.proofs
  const absorb = vault.config.frozen ? absorbFrozen : absorbRecovered
  const { added, spent } = absorb(wallet, found.wallet, history)
  saveWallet(call.text('wallet'), wallet)
  const found_now = { new: added.length, spent: spent.length }
  call.say('changes', found_now, `${added.length} notes new, ${spent.length} found spent`)
  printNotes(call, wallet, call.flag('all'))
}

/**
 * Every note of a seed, after the batches that spent its notes were compared with the nodes. Where they have another batch than
 * the archive beside the wallet, an earlier node lied about it, or one lies now: all is read again.
 * @throws RecoveryIncomplete unless `--partial` keeps what was found, and as `readHistory` and `confirmBatches`
 */
export async function recovered(call: Call, seed: Uint8Array, chain: ChainReader) {
  const limits: GapLimits = {
    keys: call.count('gap-keys', GAP_LIMITS.keys),
    deposits: call.count('gap-deposits', GAP_LIMITS.deposits),
    commands: call.count('gap-commands', GAP_LIMITS.commands),
  }
  const search = async (again: boolean) => {
    const current = await readHistory(call, chain, again)
    const { history, vault } = current.proofs
    const { wallet, incomplete } = searched(() =>
      recoverWallet(seed, history, vault.config.generation, limits),
    )
    const spent_in = new Set<number>()
    for (const note of wallet.state.notes) {
      const batch = history.spent.get(toHex(nullifierOfNote(note)))
      if (batch !== undefined) spent_in.add(batch)
    }
    const unserved = await confirmBatches(chain, call.program(), current, { spent_in, seed })
    if (unserved > 0) console.error(`${unserved} batches of this wallet ${UNSERVED}`)
    if (incomplete !== undefined && !call.flag('partial')) throw incomplete
    if (incomplete !== undefined) console.error(incomplete.message)
    return { wallet, proofs: current.proofs }
  }
  return search(false).catch((error: Error) => {
    if (!(error instanceof BatchDiffers) || call.optional('archive') !== undefined) throw error
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

export const RECOVER_VERBS: Readonly<Record<string, Verb>> = {
  'wallet recover': {
    form: `--seed-file FILE [--replace] [--all] ${ARCHIVED} ${GAPS}`,
    reads: ['chain', 'wallet'],
    says: 'finds every note of a seed on the chain, for a new wallet file',
    example: 'tacit wallet recover --seed-file seed.hex --wallet recovered.json',
    run: recoverNotes,
  },
  'wallet sync': {
    form: `[--all] ${ARCHIVED} ${GAPS}`,
    reads: ['chain', 'wallet'],
    says: 'reads what came since the last time from the chain: new notes, and which are spent',
    example: 'tacit wallet sync --wallet wallet.json',
    run: syncNotes,
  },
}
