/** Reads the options of the wallet's commands, opens what they name and locks the wallet. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { encodeBase58 } from '../../protocol/base58'
import { parseU64 } from '../../protocol/units'
import { type ChainAccess, type ChainReader, openChainAccess, openChainReader } from '../chain/chain_access'
import { Refused } from '../verify/transcript'
import type { Wallet } from '../wallet/wallet'
import { loadWallet } from '../wallet/wallet_file'
import { Options, readSeed } from './command'

/**
 * Locks a wallet until this process ends: two commands would use the same counters, and the later save would drop the
 * other's notes. A lock of an ended process is taken over.
 * @throws Refused while another command holds the lock
 */
export function lockWallet(wallet_path: string): void {
  const path = `${wallet_path}.lock`
  if (existsSync(path) && !runs(Number(readFileSync(path, 'utf8')))) rmSync(path, { force: true })
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new Refused(`${path} cannot be written: name a --wallet in a folder that is yours`)
    throw new Refused(`another command uses ${wallet_path}: wait for it to end (${path} names its process)`)
  }
  process.once('exit', () => rmSync(path, { force: true }))
}

function runs(pid: number): boolean {
  try {
    return Number.isInteger(pid) && pid > 0 && process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** One URL, or several separated by commas. @throws Refused for any other text */
export function rpcOf(text: string): string {
  const good = text.split(',').every((url) => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))
  if (!good) throw new Refused(`--rpc is ${MEANINGS['rpc']}`)
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
    const path = this.text(name)
    const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0
    if ((mode & 0o077) !== 0) throw new Refused(`${path} can be read by others: chmod 600 it`)
    return readSeed(path, `the file of --${name}`)
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
    lockWallet(this.text('wallet'))
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
