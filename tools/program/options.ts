/** The options of `bun run program` and how they are read. */
import { decodeBase58 } from '../../protocol/base58'
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
