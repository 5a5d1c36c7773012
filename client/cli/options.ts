/** Reads the options of the wallet's commands, opens what they name and locks the wallet. */
import { statSync } from 'node:fs'
import { encodeBase58 } from '../../protocol/base58'
import { parseU64 } from '../../protocol/units'
import { type ChainAccess, type ChainReader, openChainAccess, openChainReader } from '../chain/chain_access'
import { Refused } from '../verify/transcript'
import { InUse, lockFile, placeOf } from '../wallet/file_lock'
import type { Wallet } from '../wallet/wallet'
import { loadWallet } from '../wallet/wallet_file'
import { InputFault, Options, readInputText } from './command'

const locked = new Set<string>()

/**
 * Locks a wallet or an archive's folder until this process ends: two commands would use the same counters.
 * @throws Refused while another command holds the lock, NotWritten
 */
export function lockPath(named: string): void {
  const path = placeOf(named)
  if (locked.has(path)) return
  try {
    lockFile(named)
    locked.add(path)
  } catch (error) {
    if (error instanceof InUse) throw new Refused(error.message)
    throw error
  }
}

/** One URL, or several separated by commas. @throws InputFault for any other text */
export function rpcOf(text: string): string {
  const good = text.split(',').every((url) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))
  if (!good) throw new InputFault(`--rpc is ${MEANINGS['rpc']}`)
  return text
}

/** @returns the path. @throws Refused for a file that others may read */
export function requireOwn(path: string): string {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0
  if ((mode & 0o077) !== 0) throw new Refused(`${path} can be read by others: chmod 600 it`)
  return path
}

/** First line of a file of one's own. @throws Refused, InputFault */
export function passwordIn(path: string): string {
  const [password = ''] = readInputText(requireOwn(path)).split(/\r?\n/)
  if (password === '') throw new Refused(`${path} begins with an empty line: its first line is the password`)
  return password
}

const TEXTS = [
  ...(['rpc', 'program', 'seed-file', 'wallet', 'payer', 'key', 'mint', 'amount', 'note'] as const),
  ...([
    'nullifier',
    'number',
    'destination',
    'gap-keys',
    'gap-deposits',
    'gap-commands',
    'archive',
    'password-file',
    'words-file',
  ] as const),
  ...(['out', 'backup'] as const),
] as const
const FLAGS = ['replace', 'all', 'refund', 'partial', 'accept-less'] as const
type Text = (typeof TEXTS)[number]
/** Meanings of options, for the message about a missing one. */
const MEANINGS: Partial<Record<string, string>> = {
  rpc: 'the URL of a Solana node, such as https://api.mainnet-beta.solana.com, or several separated by commas',
  program: "the vault program's address, as the venue's /info and its verified evidence name it",
  'seed-file': 'the file that holds the seed',
  wallet: 'the wallet file',
  'password-file': 'a file whose first line is the password',
  out: 'a file that does not exist yet',
  backup: "a file that 'backup' wrote",
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
    requireOwn(this.text(name))
    return seed
  }

  /** First line of the file that `--password-file` names. @throws Refused for a file that others may read */
  password(): string | undefined {
    const path = this.optional('password-file')
    return path === undefined ? undefined : passwordIn(path)
  }

  /** The wallet, for reading only. */
  wallet(): Wallet {
    const path = this.text('wallet')
    const wallet = loadWallet(path, this.password())
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
