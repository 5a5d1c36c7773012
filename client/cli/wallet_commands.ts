/** `tacit wallet`, `faucet` and `deposit`: makes, funds and shows wallets, and finds notes from seed and public chain alone. */

import { existsSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import type { ChainReader } from '../chain/chain_access'
import { BatchDiffers, type CurrentHistory, confirmBatches, currentHistory } from '../chain/current_history'
import { airdrop, deposit, mintTo, planDeposit } from '../chain/deposit'
import { ownAccount, readMintDecimals, tokenBalance } from '../chain/read_vault'
import { FAUCET_POLL_MS, GAP_LIMITS } from '../limits'
import { formatAmount, parseAmount } from '../session/units'
import { Refused } from '../verify/transcript'
import { absorbFrozen, absorbRecovered, absorbRestored, nullifierOfNote } from '../wallet/absorb'
import { type GapLimits, RecoveryIncomplete, recoverWallet } from '../wallet/recover'
import { HistoryIncomplete } from '../wallet/vault_history'
import { seedOfWords, Wallet, type WalletState, wordsOfSeed } from '../wallet/wallet'
import { loadWallet, saveWallet } from '../wallet/wallet_file'
import { writeNew } from '../whole_file'
import { type Call, mintNamed, printNotes, publicClient, type Verb } from './call'
import { InputFault, readInputText } from './command'
import { lockPath, requireOwn } from './config'

/**
 * `wallet create`: a new seed file, or one from 24 words, and an empty wallet. Never overwrites a file: a lost seed is lost
 * money.
 */
function createWallet(call: Call): void {
  const path = call.text('seed-file')
  const wallet_path = call.optional('wallet')
  const password = call.password()
  if (wallet_path !== undefined && existsSync(wallet_path))
    throw new Refused(`${wallet_path} exists: name another`)
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a seed is never written over`)
  const words = call.optional('words-file')
  const seed =
    words === undefined
      ? crypto.getRandomValues(new Uint8Array(32))
      : seedOfWords(readInputText(requireOwn(words)))
  writeNew(path, `${toHex(seed)}\n`, 0o600)
  call.say('seed', path, `${path} (back it up: with the public chain it recovers every note)`)
  const wallet = new Wallet(seed)
  if (wallet_path !== undefined) {
    saveWallet(wallet_path, wallet, password === undefined ? {} : { password })
    call.say('wallet', wallet_path, `${wallet_path}${password === undefined ? '' : ', encrypted'}`)
  }
  // A seed without a wallet may be a payer's, whose address is not the trading key.
  else call.say('as payer', encodeBase58(publicKeyOf(seed)))
  call.say('trading key', wallet.tradingKeyText(0))
}

/** `wallet words`: the seed as 24 words, to be written on paper. */
function showWords(call: Call): void {
  const words = wordsOfSeed(call.seed('seed-file')).split(' ')
  const numbered = words.map((word, at) => `${String(at + 1).padStart(2)} ${word.padEnd(9)}`)
  call.print(words, () => [0, 6, 12, 18].map((row) => numbered.slice(row, row + 6).join('')))
}

/** `wallet encrypt`: under the password from now on. A copy of the old file elsewhere stays as it is. */
function encryptWallet(call: Call): void {
  const password = neededPassword(call)
  const wallet = call.walletToChange()
  saveWallet(call.text('wallet'), wallet, { password })
  const path = call.text('wallet')
  call.say('wallet', path, `${path} is encrypted: without its password only the seed opens it`)
}

/** `wallet backup`: an encrypted copy of a wallet that no program is changing. */
function backupWallet(call: Call): void {
  const [path, password] = [call.text('out'), neededPassword(call)]
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a backup is never written over`)
  const { seed, state } = call.walletToChange()
  saveWallet(path, new Wallet(seed, state), { password })
  call.say('backup', path, `${path}, encrypted: 'wallet restore' reads it`)
}

/** `wallet restore`: a wallet file from a backup, encrypted as the backup is. */
function restoreWallet(call: Call): void {
  const [from, path] = [call.text('backup'), call.text('wallet')]
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a wallet is never written over`)
  const password = call.password()
  const wallet = loadWallet(from, password)
  if (wallet === undefined) throw new Refused(`there is no backup at ${from}`)
  lockPath(path)
  saveWallet(path, wallet)
  call.say('wallet', path)
  call.hint("run 'wallet sync' before anything else: the backup lacks everything after it")
}

function neededPassword(call: Call): string {
  call.text('password-file')
  return call.password()!
}

export const FILE_VERBS: Readonly<Record<string, Verb>> = {
  'wallet create': {
    form: '--seed-file FILE [--wallet FILE] [--password-file FILE] [--words-file FILE]',
    says: 'makes a new seed, or that of 24 words, and an empty wallet; without --wallet the seed alone, as of a key that pays',
    example: 'tacit wallet create --seed-file seed.hex --wallet wallet.json',
    run: createWallet,
  },
  'wallet words': {
    form: '--seed-file FILE',
    says: 'shows the seed as 24 words, for paper',
    example: 'tacit wallet words --seed-file seed.hex',
    run: showWords,
  },
  'wallet encrypt': {
    form: '',
    reads: ['wallet'],
    says: 'puts the wallet under a password: the first line of a file that only you can read',
    example: 'tacit wallet encrypt --wallet wallet.json --password-file password',
    run: encryptWallet,
  },
  'wallet backup': {
    form: '--out FILE',
    reads: ['wallet'],
    says: 'writes an encrypted copy',
    example: 'tacit wallet backup --wallet wallet.json --out backup.json --password-file password',
    run: backupWallet,
  },
  'wallet restore': {
    form: '--backup FILE',
    reads: ['wallet'],
    says: 'makes a wallet from such a copy',
    example: 'tacit wallet restore --backup backup.json --wallet restored.json --password-file password',
    run: restoreWallet,
  },
}

/** The trading key of an index, and the payer's Solana address. */
function showAddress(call: Call): void {
  const seed_file = call.optional('seed-file')
  const payer = call.optional('payer')
  if (payer === undefined || seed_file !== undefined || call.optional('wallet') !== undefined) {
    const wallet = seed_file === undefined ? call.wallet() : new Wallet(call.seed('seed-file'))
    call.say('trading key', wallet.tradingKeyText(call.count('key', 0)))
  }
  if (payer !== undefined) call.say('payer', encodeBase58(publicKeyOf(call.seed('payer'))))
}

/** A mint with its decimals: an address, or a name that the venue, verified first, has for it. */
async function tokenIn(call: Call, chain: ChainReader, text: string) {
  const client = async () => publicClient(await call.venue())
  const mint = await mintNamed(text, call.optional('url') === undefined ? undefined : client)
  if (mint === undefined)
    throw new InputFault(
      'TOKEN is not a Solana address, and no instrument of the venue has a token of that name',
    )
  const decimals = await readMintDecimals(chain, mint)
  if (decimals === undefined) throw new InputFault(`there is no mint ${mint} on this chain`)
  const amount = parseAmount(call.words[1]!, decimals)
  if (amount === 0n) throw new InputFault('AMOUNT is 0')
  return { mint, decimals, amount }
}

const FEE_LAMPORTS = 1_000_000_000n

/** SOL for fees and tokens of a mint, on an embedded chain only. */
async function askFaucet(call: Call): Promise<void> {
  const chain = await call.chain()
  const { mint, amount } = await tokenIn(call, chain, call.words[0]!)
  const account = ownAccount(chain, mint)
  const filled = async (): Promise<void> => {
    const before = await tokenBalance(chain, account.bytes)
    await airdrop(chain, FEE_LAMPORTS)
    await mintTo(chain, mint, amount)
    while ((await tokenBalance(chain, account.bytes)) < before + amount) await sleep(FAUCET_POLL_MS)
  }
  await call.during('waiting for the chain', filled())
  const { address } = chain.payer
  call.say('payer', address, `${address}: ${FEE_LAMPORTS} lamports more`)
  call.say(
    'tokens',
    { mint, amount, account: account.text },
    `${call.words[1]} of ${mint} more, in ${account.text}`,
  )
}

/** Turns the payer's tokens into a note of a trading key. */
async function depositTokens(call: Call): Promise<void> {
  const chain = await call.chain()
  const { mint, amount, decimals } = await tokenIn(call, chain, call.words[0]!)
  const [program_id, key_index] = [call.program(), call.count('key', 0)]
  if (call.flag('dry-run')) {
    const { held, fee_lamports } = await planDeposit(chain, { program_id, mint, amount })
    const shown = (units: bigint) => formatAmount(units, decimals)
    call.say('deposit', { mint, amount }, `${shown(amount)} of ${mint} into a note of key ${key_index}`)
    call.say('fee', { lamports: fee_lamports }, `at most ${fee_lamports} lamports of the payer`)
    call.say(
      'left',
      { amount: held - amount },
      `${shown(held - amount)} in the payer's account; nothing was sent`,
    )
    return
  }
  const wallet = call.walletToChange()
  const keep = (): void => saveWallet(call.text('wallet'), wallet)
  const terms = { program_id, mint, amount, key_index, keep }
  const landing = deposit(chain, wallet, terms).finally(keep)
  const { note, signature } = await call.during('waiting for finality', landing)
  call.say('note', note.commitment)
  call.say('leaf', { index: note.leaf_index, signature }, `${note.leaf_index}, final in ${signature}`)
}

export const WALLET_VERBS: Readonly<Record<string, Verb>> = {
  'wallet address': {
    form: '[--seed-file FILE] [--key K]',
    reads: ['wallet', 'payer'],
    says: 'shows a trading key of the wallet, and the Solana address that pays',
    example: 'tacit wallet address --wallet wallet.json',
    run: showAddress,
  },
  'wallet notes': {
    form: '[--all]',
    reads: ['wallet'],
    says: 'lists the notes of the file, in base units; spent notes too with --all',
    example: 'tacit wallet notes --wallet wallet.json',
    run: (call) => printNotes(call, call.wallet(), call.flag('all')),
  },
  faucet: {
    form: 'TOKEN AMOUNT',
    reads: ['venue', 'chain', 'payer'],
    says: 'gives the payer test money, on the sandbox alone; TOKEN is a mint or a name such as USDC',
    example: 'tacit faucet USDC 500 --payer payer.hex',
    run: askFaucet,
  },
  deposit: {
    form: 'TOKEN AMOUNT [--key K] [--dry-run]',
    reads: ['venue', 'chain', 'wallet', 'payer'],
    says: "turns the payer's tokens into a note of a trading key; TOKEN as in 'faucet'",
    example: 'tacit deposit USDC 300 --wallet wallet.json --payer payer.hex',
    run: depositTokens,
  },
}

/**
 * An archive in place of the own history; how many unused places in a row end a search. A search that ends before every
 * spent note has its command fails.
 */
export const ARCHIVED = '[--archive FOLDER|URL]'
export const GAPS = '[--gap-keys 20] [--gap-deposits 1000] [--gap-commands 1000000] [--partial]'

/** Transactions between two lines of progress. */
const PROGRESS_EVERY = 1_000

/**
 * Reads the public history up to now, from `--archive` or the archive next to the wallet and the transactions after it, and
 * checks it against the vault.
 * @param again reads everything from the node, and replaces the archive next to the wallet
 * @throws HistoryIncomplete, NotAVault, ProofUnavailable, ArchiveRejected, NodesDisagree
 */
export async function readHistory(call: Call, chain: ChainReader, again = false): Promise<CurrentHistory> {
  const archive = call.optional('archive')
  if (archive === undefined) lockPath(call.text('wallet'))
  const from = archive === undefined ? { folder: historyPath(call) } : { archive }
  const current = await currentHistory(chain, call.program(), from, reporting(), again)
  sayHistory(call, 'history', current)
  return current
}

/** Prints progress and the batches that nodes do not list, on the error stream. */
export const reporting = () => ({
  progress(count: number): void {
    if (count % PROGRESS_EVERY === 0) console.error(`${count} transactions read`)
  },
  notice: (sentence: string): void => console.error(sentence),
})

export function sayHistory(call: Call, name: string, current: CurrentHistory): void {
  const lines = described(current)
  call.say(name, lines.join('\n'), lines)
}

export function described({ proofs, archive, kept, read }: CurrentHistory): string[] {
  const { history, vault } = proofs
  const held = `${history.leaves.length} leaves, ${history.spent.size} nullifiers`
  const known = `${kept} in ${archive.block_count} blocks of ${archive.where}`
  const damaged = archive.damaged === undefined ? '' : `, whose block ${archive.damaged} is torn or damaged`
  return [
    `${held}: both roots are those of the vault at slot ${vault.slot}`,
    `${read} transactions read, ${known}${damaged}`,
  ]
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
  const found = await recovered(call, wallet.seed, call.reader(), wallet.state.keys)
  const { history, vault } = found.proofs
  const { generation = 0 } = wallet.state
  if (vault.config.generation < generation)
    throw new HistoryIncomplete("the restore from the chain after which this wallet's events came")
  const is_outdated = generation < vault.config.generation
  const absorb = is_outdated ? absorbRestored : vault.config.frozen ? absorbFrozen : absorbRecovered
  const { added, spent } = absorb(wallet, found.wallet, history)
  saveWallet(call.text('wallet'), wallet)
  const found_now = { new: added.length, spent: spent.length }
  call.say('changes', found_now, `${added.length} notes new, ${spent.length} found spent`)
  printNotes(call, wallet, call.flag('all'))
}

/**
 * Every note of a seed, after the batches that spent its notes were compared with the nodes. Where they have another batch than
 * the archive next to the wallet, an earlier node lied about it, or one lies now: all is read again.
 * @param known counters of the wallet
 * @throws RecoveryIncomplete unless `--partial` keeps the notes found, and as `readHistory` and `confirmBatches`
 */
export async function recovered(
  call: Call,
  seed: Uint8Array,
  chain: ChainReader,
  known: WalletState['keys'] = [],
) {
  const limits: GapLimits = {
    keys: call.count('gap-keys', GAP_LIMITS.keys),
    deposits: call.count('gap-deposits', GAP_LIMITS.deposits),
    commands: call.count('gap-commands', GAP_LIMITS.commands),
  }
  const search = async (again: boolean) => {
    const current = await readHistory(call, chain, again)
    const { history, vault } = current.proofs
    const { wallet, incomplete } = searched(() =>
      recoverWallet(seed, history, vault.config.generation, limits, known),
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
    says: 'reads the chain since the last time: new notes, and which are spent',
    example: 'tacit wallet sync --wallet wallet.json',
    run: syncNotes,
  },
}
