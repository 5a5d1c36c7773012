/** Keeps a wallet in a file that only its owner can read. Bun and Node. */
import { existsSync, readFileSync } from 'node:fs'
import { decodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { parseU64 } from '../../protocol/units'
import { writeWhole } from '../whole_file'
import {
  Wallet,
  type WalletNote,
  type WalletOrder,
  type WalletPayment,
  type WalletRequest,
  type WalletState,
} from './wallet'

/** A file without a version is of version 1. */
const VERSION = 1
type Content = { version?: unknown; seed?: unknown; state?: unknown }

/** The file exists and is not a wallet; the message names the next step. */
export class NotAWallet extends Error {
  constructor(path: string, finding: string) {
    super(`${path} ${finding}`)
    this.name = 'NotAWallet'
  }
}

/** Synced to disk before it returns; an interrupted save leaves the previous file. */
export function saveWallet(path: string, wallet: Wallet): void {
  const content: Content = { version: VERSION, seed: toHex(wallet.seed), state: wallet.state }
  writeWhole(path, `${JSON.stringify(content, null, 1)}\n`, 0o600)
}

/** Undefined when there is no file. @throws NotAWallet */
export function loadWallet(path: string): Wallet | undefined {
  if (!existsSync(path)) return undefined
  const { version = 1, seed, state } = parse(path)
  if (version !== VERSION)
    throw new NotAWallet(
      path,
      `has version ${version}, this program reads ${VERSION}: use the one that wrote it`,
    )
  const bytes = typeof seed === 'string' ? fromHex(seed, 32) : undefined
  if (bytes === undefined)
    throw new NotAWallet(path, 'is not a wallet: recover it from its seed into another file')
  const damaged = STATE(state, 'state')
  if (damaged !== undefined)
    throw new NotAWallet(path, `is damaged at ${damaged}: recover it from its seed into another file`)
  return new Wallet(bytes, state as WalletState)
}

function parse(path: string): Content {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) ?? {}) as Content
  } catch {
    throw new NotAWallet(path, 'cannot be read as a wallet: recover it from its seed into another file')
  }
}

/** The place of the first value that does not have its form, below `at`; undefined for none. */
type Form = (value: unknown, at: string) => string | undefined

const form =
  (fits: (value: never) => boolean): Form =>
  (value, at) =>
    fits(value as never) ? undefined : at
const text = (fits: (value: string) => unknown) =>
  form((value: unknown) => typeof value === 'string' && Boolean(fits(value)))
const word = (...words: readonly string[]) => text((value) => words.includes(value))
const optional =
  (one: Form): Form =>
  (value, at) =>
    value === undefined ? undefined : one(value, at)
const list =
  (one: Form): Form =>
  (value, at) => {
    if (!Array.isArray(value)) return at
    for (const [index, entry] of value.entries()) {
      const wrong = one(entry, `${at}[${index}]`)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }
const record =
  <T>(fields: Readonly<Record<keyof T, Form>>): Form =>
  (value, at) => {
    if (typeof value !== 'object' || value === null) return at
    for (const [name, one] of Object.entries<Form>(fields)) {
      const wrong = one((value as Record<string, unknown>)[name], `${at}.${name}`)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }

const [hash, id] = [text((value) => fromHex(value, 32)), text((value) => fromHex(value, 16))]
const address = text((value) => decodeBase58(value, 32))
const count = form((value: number) => Number.isSafeInteger(value) && value >= 0)
const u64 = text((value) => parseU64(value) !== undefined)
/** Of many u64. */
const sum = text((value) => /^(0|[1-9][0-9]*)$/.test(value))

const NOTE = record<WalletNote>({
  ...{ commitment: hash, key_index: count, mint: address, amount: u64, blinding: hash },
  leaf_index: optional(count),
  state: word('free', 'pending', 'spent'),
  origin: word('deposit', 'proceeds', 'change', 'refund', 'reshape'),
})
const ORDER = record<WalletOrder>({
  ...{ order_id: id, key_index: count, command: count, nonce: u64, anchor_count: count },
  ...{ symbol: text(() => true), side: word('buy', 'sell'), base_mint: address, quote_mint: address },
  ...{ base_decimals: count, fee_bps: count, price_limit: u64, collateral: hash, consumed: list(hash) },
  ...{ filled: sum, filled_final: optional(sum), quote: sum, fee: sum },
  open: form((value: unknown) => typeof value === 'boolean'),
})
const PAYMENT = record<WalletPayment>({
  ...{ id: text(() => true), kind: word('withdrawal', 'reshape'), key_index: count, command: count },
  ...{ inputs: list(hash), amounts: list(u64) },
  refund: optional(record({ commitment: hash, mint: address, generation: count })),
})
const REQUEST = record<WalletRequest>({
  ...{ id: text(() => true), key_index: count, after_seq: count },
  kind: word('place', 'cancel', 'modify', 'cancel_all', 'dead_man', 'withdraw', 'reshape'),
  request: form((value: unknown) => typeof value === 'object' && value !== null),
})
const STATE = record<WalletState>({
  keys: list(record({ commands: count, deposits: count, cancels: count })),
  ...{ notes: list(NOTE), orders: list(ORDER), payments: list(PAYMENT) },
  fees: list(record({ mint: address, amount: sum })),
  seq: count,
  requests: optional(list(REQUEST)),
})
