/** Reads the options of the wallet's commands, opens what they name and locks the wallet. */
import { Database } from 'bun:sqlite'
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { encodeBase58 } from '../../protocol/base58'
import { parseU64 } from '../../protocol/units'
import { type ChainAccess, type ChainReader, openChainAccess, openChainReader } from '../chain/chain_access'
import { Refused } from '../verify/transcript'
import type { Wallet } from '../wallet/wallet'
import { loadWallet } from '../wallet/wallet_file'
import { InputFault, Options } from './command'

const locks = new Map<string, Database>()

/**
 * Locks a wallet or an archive's folder until this process ends: two commands would use the same counters, and the later
 * save would drop the other's notes. SQLite's exclusive lock on an empty database: the kernel drops it with the process,
 * so no lock is ever stale. The file stays: removing it would let two processes lock two files of one name.
 * @throws Refused while another command holds the lock
 */
export function lockPath(named: string): void {
  const path = resolve(named)
  if (locks.has(path)) return
  try {
    const lock = new Database(`${path}.lock`, { create: true })
    lock.run('PRAGMA busy_timeout = 0')
    lock.run('BEGIN EXCLUSIVE')
    locks.set(path, lock)
  } catch (error) {
    if ((error as { code?: unknown }).code === 'SQLITE_BUSY')
      throw new Refused(`another command uses ${named}: wait for it to end`)
    throw new Refused(`${named}.lock cannot be written: name a place in a folder that is yours`)
  }
}

/** One URL, or several separated by commas. @throws InputFault for any other text */
export function rpcOf(text: string): string {
  const good = text.split(',').every((url) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))
  if (!good) throw new InputFault(`--rpc is ${MEANINGS['rpc']}`)
  return text
}

const TEXTS = [
  ...(['rpc', 'program', 'seed-file', 'wallet', 'payer', 'key', 'mint', 'amount', 'note'] as const),
  ...(['nullifier', 'number', 'destination', 'gap-keys', 'gap-deposits', 'gap-commands', 'archive'] as const),
] as const
const FLAGS = ['replace', 'all', 'refund', 'partial', 'accept-less'] as const
type Text = (typeof TEXTS)[number]
/** Meanings of options, for the message about a missing one. */
const MEANINGS: Partial<Record<string, string>> = {
  rpc: 'the URL of a Solana node, such as https://api.mainnet-beta.solana.com, or several separated by commas',
  program: "the vault program's address, as the venue's /info and its verified evidence name it",
  'seed-file': 'the file that holds the seed',
  wallet: 'the wallet file',
  payer: 'a file with the key that pays fees',
  mint: 'the address of the token',
  amount: 'whole base units',
  note: "a commitment, as 'notes' lists it",
  nullifier: "as 'exit request' printed it",
}

export class CommandOptions extends Options<Text, (typeof FLAGS)[number]> {
  /** @throws Refused for an unknown option */
  static parse(args: readonly string[]): CommandOptions {
    try {
      return new CommandOptions(args, { texts: TEXTS, flags: FLAGS, words: Number.POSITIVE_INFINITY })
    } catch (error) {
      throw new Refused(`${(error as Error).message}\n'bun run wallet' alone lists commands and options`)
    }
  }

  protected override fault(message: string): Error {
    return new Refused(message)
  }
  override text(name: Text): string {
    const value = this.optional(name)
    if (value === undefined) throw new Refused(`--${name} is needed: ${MEANINGS[name]}`)
    return value
  }
  /** Base units, above 0. */
  units(): bigint {
    const amount = parseU64(this.text('amount'))
    if (amount === undefined || amount === 0n)
      throw new Refused('--amount is a whole number of base units above 0')
    return amount
  }
  /** @throws Refused for a file that others may read */
  override seed(name: Text): Uint8Array {
    const seed = super.seed(name)
    const path = this.text(name)
    if ((statSync(path).mode & 0o077) !== 0) throw new Refused(`${path} can be read by others: chmod 600 it`)
    return seed
  }

  /** The wallet, for reading only. */
  wallet(): Wallet {
    const path = this.text('wallet')
    const wallet = loadWallet(path)
    if (wallet === undefined)
      throw new Refused(`there is no wallet at ${path}: make it with 'create' or 'recover'`)
    return wallet
  }
  /** The wallet, locked for changes. @throws Refused while another command holds the lock */
  walletToChange(): Wallet {
    lockPath(this.text('wallet'))
    return this.wallet()
  }
  program(): string {
    return encodeBase58(this.address('program'))
  }
  /** Opens the chain for reading. */
  reader(): ChainReader {
    return openChainReader(rpcOf(this.text('rpc')))
  }
  /** Opens the chain with `--payer` as payer. */
  chain(): Promise<ChainAccess> {
    return openChainAccess(rpcOf(this.text('rpc')), this.seed('payer'))
  }
}
