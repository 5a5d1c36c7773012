/** Frames every command: help, options, files of keys, and the end of the process with its exit code. */
import { readFileSync } from 'node:fs'
import { inspect, parseArgs } from 'node:util'
import { decodeBase58 } from '../../protocol/base58'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { parseU64 } from '../../protocol/units'
import { printable, Refused } from '../verify/transcript'
import { NotWritten } from '../whole_file'

/** Invalid arguments; without a message only the usage is printed. */
export class UsageFault extends Error {}

/** A file or URL that the command line names cannot be used. */
export class InputFault extends Refused {}

/** Words at the beginning of a line that a terminal shows in colour. */
const GREEN = /^(accepted|VERIFIED|PARTIAL|ok|[0-9.]+ pass)\b/
const RED = /^(refused|unknown|FAILED|INCOMPLETE|fault|changed|[0-9.]+ FAIL)\b/
const coloured = (line: string): string =>
  line.replace(GREEN, '\u001b[32m$&\u001b[0m').replace(RED, '\u001b[31m$&\u001b[0m')

/** Nothing is printed raw: control characters in the text of a node or file would rewrite the terminal. */
function printEscaped(): void {
  const { stdout, stderr, env } = process
  for (const [stream, { isTTY }] of [
    ['log', stdout],
    ['error', stderr],
  ] as const) {
    const print = console[stream]
    const with_colour = isTTY === true && !env['NO_COLOR']
    console[stream] = (text: unknown = '') => {
      const lines = (typeof text === 'string' ? text : inspect(text)).split('\n').map(printable)
      print(lines.map((line) => (with_colour ? coloured(line) : line)).join('\n'))
    }
  }
}

/** Prints the usage and exits with 0 when the command line asks for help. */
function answerHelp(usage: string): void {
  const args = process.argv.slice(2)
  if (args[0] !== 'help' && !args.includes('--help') && !args.includes('-h')) return
  console.log(usage)
  process.exit(0)
}

export type Failure = { code: number; message: string }
const CODES =
  'exit code: 0 done, 1 not done, for the reason that is printed, 64 usage, 74 a file or folder fails'

/**
 * Runs a command and ends the process with the number that `run` returns, 1 for false, else 0. A usage error ends with 64,
 * so that a script which acts on 1 never takes a mistyped option for a verdict; a file or folder that fails ends with 74.
 * @param judge code and message of another error; an error without them is thrown on. By default 1 and the error's own
 */
export async function runCommand(
  usage: string,
  run: (args: string[]) => unknown,
  judge?: (error: Error) => Failure | undefined,
): Promise<never> {
  printEscaped()
  answerHelp(usage.includes('exit code') ? usage : `${usage}\n${CODES}`)
  try {
    const result = await run(process.argv.slice(2))
    process.exit(typeof result === 'number' ? result : Number(result === false))
  } catch (thrown) {
    const error = thrown as NodeJS.ErrnoException
    const misused = error instanceof UsageFault || String(error.code).startsWith('ERR_PARSE_ARGS')
    const usage_message = [error.message, usage].filter(Boolean).join('\n\n')
    const of_system =
      error.syscall === undefined && !(error instanceof NotWritten)
        ? undefined
        : { code: 74, message: error.message }
    const judged = judge === undefined ? undefined : judge(error)
    const by_default = judge === undefined ? { code: 1, message: error.message } : undefined
    const failure = misused ? { code: 64, message: usage_message } : (judged ?? of_system ?? by_default)
    if (failure === undefined) throw error
    console.error(failure.message)
    process.exit(failure.code)
  }
}

type Names<T, F> = {
  readonly texts: readonly T[]
  readonly flags?: readonly F[]
  /** The most words without `--`, and the fewest; default none. */
  readonly words?: number
  readonly least?: number
}

/** An option with its value, as `--kind trade|read`, or alone, as `--once`. */
const OPTION = /--([a-z0-9-]+)(?: (?![-|[(])[^\s\])]+)?/g
const OPTIONAL = /\[[^[\]]*\]/
const countOf = (text: string): number => text.match(/[^\s()|[\]]\S*/g)?.length ?? 0

/** The options and words that a form names, such as `FILE [MORE] [--kind trade|read] [--once]`. */
export function namesIn(form: string): Required<Names<string, string>> {
  const named = [...form.matchAll(OPTION)].map(([text, name]) => ({ name: name!, takes: text.includes(' ') }))
  let words = form.replace(OPTION, '')
  const most = countOf(words)
  while (OPTIONAL.test(words)) words = words.replace(OPTIONAL, '')
  return {
    texts: named.filter(({ takes }) => takes).map(({ name }) => name),
    flags: named.filter(({ takes }) => !takes).map(({ name }) => name),
    words: most,
    least: countOf(words),
  }
}

/** @throws Error of `parseArgs`, without its advice on `--`: no word of these commands begins with a dash */
const parsedArgs: typeof parseArgs = (config) => {
  try {
    return parseArgs(config)
  } catch (error) {
    if (error instanceof Error) error.message = error.message.replace(/\. To specify a positional .*$/s, '')
    throw error
  }
}

/** The options of one command line, read by name and form. */
export class Options<T extends string, F extends string = never> {
  /** The words of the command line that are no options. */
  readonly words: readonly string[]
  private readonly values: Partial<Record<string, string | boolean>>

  /** @throws Error of `parseArgs` for an unknown option, UsageFault for too many words and for an option given twice */
  constructor(args: readonly string[], { texts, flags = [], words = 0, least = 0 }: Names<T, F>) {
    const options = Object.fromEntries([
      ...texts.map((name) => [name, { type: 'string' as const }] as const),
      ...flags.map((name) => [name, { type: 'boolean' as const }] as const),
    ])
    const parsed = parsedArgs({ args: [...args], options, allowPositionals: true, tokens: true })
    const given = parsed.tokens.flatMap((token) => (token.kind === 'option' ? token.name : []))
    const twice = given.find((name, at) => given.indexOf(name) !== at)
    if (twice !== undefined) throw new UsageFault(`--${twice} is given twice`)
    if (parsed.positionals.length > words || parsed.positionals.length < least) throw new UsageFault()
    this.words = parsed.positionals
    this.values = parsed.values as Partial<Record<string, string | boolean>>
  }

  flag(name: F): boolean {
    return this.values[name] === true
  }
  optional(name: T): string | undefined {
    return this.values[name] as string | undefined
  }
  text(name: T, fallback?: string): string {
    const value = this.optional(name) ?? fallback
    if (value === undefined) throw this.fault(`--${name} is missing`)
    return value
  }
  /** Content of the file that the option names, if it is given. */
  file(name: T): string | undefined {
    const path = this.optional(name)
    return path === undefined ? undefined : readInputText(path)
  }
  /** 32 bytes as hex. */
  hex32(name: T): Uint8Array {
    const bytes = fromHex(this.text(name), 32)
    if (bytes === undefined) throw this.fault(`--${name} is 64 lowercase hex digits`)
    return bytes
  }
  /** 32 bytes as base58. */
  address(name: T): Uint8Array {
    const bytes = decodeBase58(this.text(name), 32)
    if (bytes === undefined) throw this.fault(`--${name} is not a Solana address`)
    return bytes
  }
  /** A whole number below 2^64. */
  amount(name: T, fallback?: string): bigint {
    const value = parseU64(this.text(name, fallback))
    if (value === undefined) throw this.fault(`--${name} is not a whole number`)
    return value
  }
  /** A whole number; `fallback` when absent. */
  count(name: T, fallback: number, digits_max = 9): number {
    const value = this.optional(name)
    if (value === undefined) return fallback
    if (!/^(0|[1-9][0-9]*)$/.test(value) || value.length > digits_max)
      throw this.fault(`--${name} is not a whole number`)
    return Number(value)
  }
  /** The Ed25519 seed in the file that the option names. */
  seed(name: T): Uint8Array {
    // Not by its path: a secret that was typed in place of its file must not reach the terminal or a log.
    return readSeed(this.text(name), `the file of --${name}`)
  }
  protected fault(message: string): Error {
    return new UsageFault(message)
  }
}

/**
 * Reads an Ed25519 seed, 32 bytes, from a file with 32 bytes, 64 hex digits, or the array of `solana-keygen`.
 * @param called the name of the file in errors
 * @throws InputFault with that name, never the file's content
 */
export function readSeed(path: string, called = path): Uint8Array {
  const bytes = readInput(path, called)
  if (bytes.length === 32) return bytes
  const text = new TextDecoder().decode(bytes).trim()
  const seed = text.startsWith('[') ? keygenSeed(text) : fromHex(text, 32)
  if (seed === undefined) throw new InputFault(`${called} holds neither a seed nor a key of solana-keygen`)
  return seed
}

/** Parses seed and public key as 64 numbers; undefined when they do not match. */
function keygenSeed(text: string): Uint8Array | undefined {
  let numbers: unknown
  try {
    numbers = JSON.parse(text)
  } catch {
    return undefined
  }
  const isByte = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 255
  if (!Array.isArray(numbers) || numbers.length !== 64 || !numbers.every(isByte)) return undefined
  const bytes = Uint8Array.from(numbers as number[])
  const seed = bytes.slice(0, 32)
  return equalBytes(publicKeyOf(seed), bytes.subarray(32)) ? seed : undefined
}

/** Reads a file named on the command line. @throws InputFault with the name `called` */
export function readInput(path: string, called = path): Uint8Array {
  try {
    return new Uint8Array(readFileSync(path))
  } catch {
    throw new InputFault(`${called} cannot be read`)
  }
}

/** The same as UTF-8 text. @throws InputFault naming the file */
export function readInputText(path: string): string {
  return new TextDecoder().decode(readInput(path))
}

/** A unix second as text. */
export const timeOf = (unix_s: number): string => new Date(unix_s * 1000).toISOString()
