/** Parses the options of the wallet's commands, reads the files they name and locks the wallet. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { parseU64 } from '../../protocol/units'
import { type ChainAccess, type ChainReader, openChainAccess, openChainReader } from '../chain/chain_access'
import { Refused } from '../verify/transcript'
import type { Wallet } from '../wallet/wallet'
import { loadWallet } from '../wallet/wallet_file'

/** Prints the usage and exits with 0 when the command line asks for help. */
export function answerHelp(usage: string): void {
  const args = process.argv.slice(2)
  if (args[0] !== 'help' && !args.includes('--help') && !args.includes('-h')) return
  console.log(usage)
  process.exit(0)
}

/** A user error; the message names the next step. */
export class CommandRefused extends Error {
  override readonly name = 'CommandRefused'
}

/** Reads a file named on the command line. @throws Refused naming it */
export function readInput(path: string): Uint8Array {
  try {
    return new Uint8Array(readFileSync(path))
  } catch {
    throw new Refused(`${path} cannot be read`)
  }
}

/** The same as UTF-8 text. @throws Refused naming the file */
export function readInputText(path: string): string {
  return new TextDecoder().decode(readInput(path))
}

/**
 * Locks a wallet until this process ends: two commands would use the same counters, and the later save would drop the
 * other's notes. A lock of an ended process is taken over.
 * @throws CommandRefused while another command holds the lock
 */
export function lockWallet(wallet_path: string): void {
  const path = `${wallet_path}.lock`
  if (existsSync(path) && !runs(Number(readFileSync(path, 'utf8')))) rmSync(path, { force: true })
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST')
      throw new CommandRefused(`${path} cannot be written: name a --wallet in a folder that is yours`)
    throw new CommandRefused(
      `another command uses ${wallet_path}: wait for it to end (${path} names its process)`,
    )
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

const text = { type: 'string' } as const
const OPTIONS = {
  rpc: text,
  program: text,
  'seed-file': text,
  wallet: text,
  payer: text,
  key: text,
  mint: text,
  amount: text,
  note: text,
  nullifier: text,
  destination: text,
  'gap-keys': text,
  'gap-deposits': text,
  'gap-commands': text,
  replace: { type: 'boolean' },
  all: { type: 'boolean' },
} as const
/** Meanings of options, for the message about a missing one. */
const MEANINGS: Partial<Record<string, string>> = {
  rpc: 'the URL of a Solana node',
  program: "the vault program's address, as the venue's /info and its verified evidence name it",
  'seed-file': 'the file that holds the seed',
  wallet: 'the wallet file',
  payer: 'a file with the key that pays fees',
  mint: 'the address of the token',
  amount: 'whole base units',
  note: "a commitment, as 'notes' lists it",
  nullifier: "as 'exit request' printed it",
}
type TextOption = Exclude<keyof typeof OPTIONS, 'replace' | 'all'>
type Values = { [K in TextOption]?: string | undefined } & {
  replace?: boolean | undefined
  all?: boolean | undefined
}

export class CommandOptions {
  private constructor(
    /** The words of the command, without options. */
    readonly words: readonly string[],
    private readonly values: Values,
  ) {}

  /** @throws CommandRefused for an unknown option */
  static parse(args: readonly string[]): CommandOptions {
    try {
      const { values, positionals } = parseArgs({ args: [...args], options: OPTIONS, allowPositionals: true })
      return new CommandOptions(positionals, values)
    } catch (error) {
      throw new CommandRefused(
        `${(error as Error).message}\n'bun run wallet' alone lists commands and options`,
      )
    }
  }

  flag(name: 'replace' | 'all'): boolean {
    return this.values[name] === true
  }
  optional(name: TextOption): string | undefined {
    return this.values[name]
  }
  text(name: TextOption): string {
    const value = this.values[name]
    if (value === undefined) throw new CommandRefused(`--${name} is needed: ${MEANINGS[name]}`)
    return value
  }
  /** A whole number; `fallback` when absent. */
  count(name: TextOption, fallback: number): number {
    const value = this.values[name]
    if (value === undefined) return fallback
    if (!/^(0|[1-9][0-9]{0,8})$/.test(value)) throw new CommandRefused(`--${name} is a whole number`)
    return Number(value)
  }
  amount(): bigint {
    const amount = parseU64(this.text('amount'))
    if (amount === undefined || amount === 0n)
      throw new CommandRefused('--amount is a whole number of base units above 0')
    return amount
  }
  address(name: TextOption): Uint8Array {
    const bytes = decodeBase58(this.text(name), 32)
    if (bytes === undefined) throw new CommandRefused(`--${name} is not a Solana address`)
    return bytes
  }
  field(name: TextOption): Uint8Array {
    const bytes = fromHex(this.text(name), 32)
    if (bytes === undefined) throw new CommandRefused(`--${name} is 64 lowercase hex digits`)
    return bytes
  }

  /** The wallet, for reading only. */
  wallet(): Wallet {
    const path = this.text('wallet')
    const wallet = loadWallet(path)
    if (wallet === undefined)
      throw new CommandRefused(`there is no wallet at ${path}: make it with 'create' or 'recover'`)
    return wallet
  }
  /** The wallet, locked for changes. @throws CommandRefused while another command holds the lock */
  walletToChange(): Wallet {
    lockWallet(this.text('wallet'))
    return this.wallet()
  }
  program(): string {
    return encodeBase58(this.address('program'))
  }
  /** Opens the chain for reading. */
  reader(): ChainReader {
    return openChainReader(this.rpcUrl())
  }
  /** Opens the chain with `--payer` as payer. */
  chain(): Promise<ChainAccess> {
    return openChainAccess(this.rpcUrl(), readSeed(this.text('payer')))
  }
  private rpcUrl(): string {
    const url = this.text('rpc')
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      throw new CommandRefused(
        '--rpc is the URL of a Solana node, such as https://api.mainnet-beta.solana.com',
      )
    return url
  }
}

/** A seed as 64 hex digits, or a key file of the Solana tools (64 numbers, the seed first). */
export function readSeed(path: string): Uint8Array {
  let content: string
  try {
    if ((statSync(path).mode & 0o077) !== 0)
      throw new CommandRefused(`${path} can be read by others: chmod 600 it`)
    content = readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (error instanceof CommandRefused) throw error
    throw new CommandRefused(`${path} cannot be read`)
  }
  const seed = content.startsWith('[') ? seedOfKeyFile(content) : fromHex(content, 32)
  if (seed === undefined)
    throw new CommandRefused(`${path} holds no seed: expected 64 hex digits or a Solana key file`)
  return seed
}

function seedOfKeyFile(content: string): Uint8Array | undefined {
  try {
    const bytes = JSON.parse(content) as unknown[]
    const whole = bytes.every((one) => Number.isInteger(one) && (one as number) >= 0 && (one as number) < 256)
    return bytes.length === 64 && whole ? Uint8Array.from(bytes.slice(0, 32) as number[]) : undefined
  } catch {
    return undefined
  }
}
