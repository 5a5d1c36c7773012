/** Keeps a wallet in a file that only its owner can read, in clear or encrypted under a password. Bun and Node. */

import { existsSync, lstatSync, readFileSync } from 'node:fs'
import { decodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { TacitError } from '../../protocol/tacit_error'
import { parseU64 } from '../../protocol/units'
import { isLocked, lockFile, NotWritten, placeOf, writeWhole } from '../whole_file'
import { ReceiptFile } from './receipt_file'
import { isSealedText, type PasswordKey, passwordKey, seal, unseal } from './sealed_text'
import {
  Wallet,
  type WalletNote,
  type WalletOrder,
  type WalletPayment,
  type WalletRequest,
  type WalletState,
} from './wallet'

/** Versions of the file: in clear, as one without a version; encrypted; and encrypted by scrypt, which is not read any more. */
const [CLEAR, SEALED, SCRYPT] = [1, 3, 2]
type Content = { version?: unknown; seed?: unknown; state?: unknown; sealed?: unknown }

/** The file exists and is not a wallet; the message names the next step. */
export class NotAWallet extends TacitError<{ path: string }> {
  override readonly name = 'NotAWallet'
  readonly code = 'not_a_wallet'
  constructor(path: string, finding: string) {
    super(`${path} ${finding}`, { path })
  }
}

/** The file is encrypted, and no password or another one was given. */
export class WalletLocked extends TacitError<{ path: string }> {
  override readonly name = 'WalletLocked'
  readonly code = 'wallet_locked'
  constructor(path: string, finding: string) {
    super(`${path} ${finding}`, { path })
  }
}

/** Another program changed the file since this wallet was read: a save would undo its counters and notes. */
export class WalletChanged extends TacitError<{ path: string }> {
  override readonly name = 'WalletChanged'
  readonly code = 'wallet_changed'
  constructor(path: string) {
    super(`${path} is not as this program last read it: nothing was written, read it again`, { path })
  }
}

/** State of a wallet's file when this process last read or wrote it. */
type Kept = {
  path: string
  stamp: string | undefined
  key: PasswordKey | undefined
  /** Members of another program, as the payer's seed of a page: saved as they were read. */
  others: Record<string, unknown>
}
const kept = new WeakMap<Wallet, Kept>()

export type SaveOptions = {
  /** Encrypts the file from now on; a wallet that was read from an encrypted file stays encrypted without it. */
  password?: string
  /** Writes over a file that the wallet was not read from. */
  replace?: boolean
}

/**
 * Synced to disk before it returns; an interrupted save leaves the previous file. The file is written only if it is as this
 * process last read or wrote it, and no other process has it locked.
 * @throws NotWritten, also for a state that `loadWallet` would reject; WalletChanged, InUse
 */
export function saveWallet(
  path: string,
  wallet: Wallet,
  { password, replace = false }: SaveOptions = {},
): void {
  const known = kept.get(wallet)
  const damaged = STATE(wallet.state, 'state')
  if (damaged !== undefined) throw new NotWritten(path, new Error(`${damaged} would not load again`))
  const key = password === undefined ? known?.key : passwordKey(password)
  const others = known?.others ?? {}
  const inner = { ...others, seed: toHex(wallet.seed), state: wallet.state }
  const content: Content =
    key === undefined
      ? { version: CLEAR, ...inner }
      : { version: SEALED, sealed: seal(JSON.stringify(inner), key) }
  const text = `${JSON.stringify(content, null, 1)}\n`
  const place = placeOf(path)
  const release = isLocked(place) || !existsSync(place.replace(/[^/\\]*$/, '')) ? undefined : lockFile(path)
  try {
    const expected = known?.path === place ? known.stamp : undefined
    if (!replace && stampOf(place) !== expected) throw new WalletChanged(path)
    try {
      writeWhole(path, text, 0o600)
    } catch (error) {
      // A write that failed may have renamed the file and put it back.
      if (expected !== undefined) kept.set(wallet, { ...known!, stamp: stampOf(place) })
      throw error
    }
    kept.set(wallet, { path: place, stamp: stampOf(place), key, others })
  } finally {
    release?.()
  }
}

/** Distinguishes two contents of a path: every save makes a new file. Undefined for none. */
function stampOf(path: string): string | undefined {
  const stat = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  return stat && [stat.ino, stat.size, stat.mtimeNs, stat.ctimeNs].join()
}

/**
 * Undefined when there is no file.
 * @param password of an encrypted file
 * @throws NotAWallet, WalletLocked
 */
export function loadWallet(path: string, password?: string): Wallet | undefined {
  const place = placeOf(path)
  const stamp = stampOf(place)
  if (stamp === undefined) return undefined
  requireOwn(path)
  const { version = CLEAR, sealed, ...clear } = parse(path, readFileSync(path, 'utf8'))
  if (version === SCRYPT)
    throw new NotAWallet(
      path,
      'was encrypted by an older version: recover it from its seed into another file',
    )
  if (version !== CLEAR && version !== SEALED)
    throw new NotAWallet(
      path,
      `has version ${version}, this program reads ${CLEAR} and ${SEALED}: use the one that wrote it`,
    )
  const { text, key } = version === CLEAR ? {} : opened(path, sealed, password)
  const { seed, state, ...others } = text === undefined ? clear : parse(path, text)
  const bytes = typeof seed === 'string' ? fromHex(seed, 32) : undefined
  if (bytes === undefined)
    throw new NotAWallet(path, 'is not a wallet: recover it from its seed into another file')
  const damaged = STATE(state, 'state')
  if (damaged !== undefined)
    throw new NotAWallet(path, `is damaged at ${damaged}: recover it from its seed into another file`)
  const wallet = new Wallet(bytes, state as WalletState)
  kept.set(wallet, { path: place, stamp, key, others })
  return wallet
}

/** @throws NotAWallet for a link, a folder, and a file that others may read */
function requireOwn(path: string): void {
  const stat = lstatSync(path)
  if (!stat.isFile()) throw new NotAWallet(path, 'is no plain file: name the file itself')
  if (process.platform !== 'win32' && (stat.mode & 0o077) !== 0)
    throw new NotAWallet(path, 'can be read or written by others: chmod 600 it')
}

function opened(path: string, sealed: unknown, password: string | undefined) {
  if (!isSealedText(sealed))
    throw new NotAWallet(path, 'is damaged: restore its backup, or recover it from its seed')
  if (password === undefined) throw new WalletLocked(path, 'is encrypted: give its password')
  const key = passwordKey(password, sealed.salt)
  const text = unseal(sealed, key)
  if (text === undefined)
    throw new WalletLocked(path, 'does not open: the password is another one, or the file is damaged')
  return { text, key }
}

function parse(path: string, text: string): Content {
  try {
    return (JSON.parse(text) ?? {}) as Content
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
  commitment: hash,
  key_index: count,
  mint: address,
  amount: u64,
  blinding: hash,
  leaf_index: optional(count),
  state: word('free', 'pending', 'spent'),
  origin: word('deposit', 'proceeds', 'change', 'refund', 'reshape'),
})
const ORDER = record<WalletOrder>({
  order_id: id,
  key_index: count,
  command: count,
  nonce: u64,
  anchor_count: count,
  symbol: text(() => true),
  side: word('buy', 'sell'),
  base_mint: address,
  quote_mint: address,
  base_decimals: count,
  fee_bps: count,
  price_limit: u64,
  collateral: hash,
  consumed: list(hash),
  amount: optional(u64),
  filled: sum,
  filled_final: optional(sum),
  quote: sum,
  fee: sum,
  open: form((value: unknown) => typeof value === 'boolean'),
})
const PAYMENT = record<WalletPayment>({
  id: text(() => true),
  kind: word('withdrawal', 'reshape'),
  key_index: count,
  command: count,
  inputs: list(hash),
  amounts: list(u64),
  refund: optional(record({ commitment: hash, mint: address, generation: count })),
})
const REQUEST = record<WalletRequest>({
  id: text(() => true),
  key_index: count,
  after_seq: count,
  kind: word('place', 'cancel', 'modify', 'cancel_all', 'dead_man', 'withdraw', 'reshape'),
  request: form((value: unknown) => typeof value === 'object' && value !== null),
})
const STATE = record<WalletState>({
  keys: list(record({ commands: count, deposits: count, cancels: count })),
  notes: list(NOTE),
  orders: list(ORDER),
  payments: list(PAYMENT),
  fees: list(record({ mint: address, amount: sum })),
  seq: count,
  vault: optional(record({ genesis_hash: address, program_id: address })),
  generation: optional(count),
  requests: optional(list(REQUEST)),
})

/** Keeps a wallet; `save` is durable when it returns, or throws and has changed nothing. */
export type WalletStore = {
  wallet: Wallet
  save(wallet: Wallet): void
  /** Where verified receipts are kept. */
  receipts?: ReceiptFile
  close?(): void
}

/** @throws RangeError for no file, NotAWallet, WalletLocked, InUse */
export function openWalletFile(path: string, password?: string): WalletStore {
  const absent = new RangeError(`there is no wallet at ${path}`)
  // A lock would leave its file beside a wallet that is not there.
  if (!existsSync(path)) throw absent
  const close = lockFile(path)
  try {
    const wallet = loadWallet(path, password)
    if (wallet === undefined) throw absent
    const receipts = new ReceiptFile(path, wallet.seed)
    return { wallet, save: (changed) => saveWallet(path, changed), receipts, close }
  } catch (error) {
    close()
    throw error
  }
}
