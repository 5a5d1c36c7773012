/** Reads the options and key files of `bun run program`. */

import { readFileSync } from 'node:fs'
import { decodeBase58 } from '../../protocol/base58'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { parseU64 } from '../../protocol/units'
import { UsageFault } from '../run_command'

export const OPTIONS = {
  rpc: { type: 'string' },
  payer: { type: 'string' },
  authority: { type: 'string' },
  admin: { type: 'string' },
  program: { type: 'string' },
  elf: { type: 'string' },
  signer: { type: 'string' },
  'exit-delay': { type: 'string' },
  mint: { type: 'string' },
  'token-program': { type: 'string' },
  'min-deposit': { type: 'string' },
  'min-exit': { type: 'string' },
  key: { type: 'string' },
  'priority-fee': { type: 'string' },
  renounce: { type: 'boolean' },
  execute: { type: 'boolean' },
} as const

type Texts = Exclude<keyof typeof OPTIONS, 'renounce' | 'execute'>
export type Options = Partial<Record<Texts, string>> & { renounce?: boolean; execute?: boolean }

/**
 * Reads an Ed25519 seed, 32 bytes, from a file with 32 bytes, 64 hex digits, or the array of `solana-keygen`.
 * @throws Error with the file's name, never its content
 */
export function readSeed(file: string): Uint8Array {
  const bytes = readFileSync(file)
  if (bytes.length === 32) return new Uint8Array(bytes)
  const text = bytes.toString('utf8').trim()
  const seed = text.startsWith('[') ? keygenSeed(text) : fromHex(text, 32)
  if (seed === undefined) throw new Error(`${file} holds neither a seed nor a key of solana-keygen`)
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

export const text = (values: Options, name: Texts, fallback?: string): string => {
  const value = values[name] ?? fallback
  if (value === undefined) throw new UsageFault(`--${name} is missing`)
  return value
}

/** 32 bytes of base58. */
export function publicKey(values: Options, name: Texts): Uint8Array {
  const bytes = decodeBase58(text(values, name), 32)
  if (bytes === undefined) throw new UsageFault(`--${name} is not 32 bytes of base58`)
  return bytes
}

export function amount(values: Options, name: Texts, fallback?: string): bigint {
  const value = parseU64(text(values, name, fallback))
  if (value === undefined) throw new UsageFault(`--${name} is not a whole number`)
  return value
}

export const rpcUrls = (values: Options): string[] =>
  text(values, 'rpc', process.env['SOLANA_RPC_URL']).split(',')
