/**
 * Keeps a wallet in the browser's storage, sealed under a passphrase. A save is whole or throws. One page at a time holds it,
 * since two would use a blinding twice.
 */
import { fromHex, toHex } from '../../protocol/bytes'
import type { Login } from '../api/venue_client'
import {
  isSealedText,
  type PasswordKey,
  passwordKeyAsync,
  type SealedText,
  seal,
  unseal,
} from '../wallet/sealed_text'
import { Wallet, type WalletState } from '../wallet/wallet'
import type { WalletStore } from '../wallet/wallet_file'

/** Version of an encrypted wallet, in a file as here; version 1 had the parts of `sealed` as fields of the wallet. */
const [VERSION, VERSION_1] = [3, 1]
const SEED_BYTES = 32

type Content = { seed: string; payer_seed?: string; state: WalletState; login?: Login; is_admitted?: boolean }

/** The text is no sealed wallet, or the passphrase is another. */
class NotOpened extends Error {
  override readonly name = 'NotOpened'
}
/** Another page has the wallet open. */
class WalletInUse extends Error {
  override readonly name = 'WalletInUse'
}

export class BrowserStore implements WalletStore {
  private constructor(
    private readonly name: string,
    private readonly key: PasswordKey,
    readonly wallet: Wallet,
    /** Of the key that pays fees on chain and owns the token accounts. */
    readonly payer_seed: Uint8Array,
    public login: Login | undefined,
    /** The operator has the account. */
    public is_admitted: boolean,
  ) {}

  /** Whether a wallet is kept under `name`. */
  static has(name: string): boolean {
    return localStorage.getItem(name) !== null
  }

  /** A new seed. @throws RangeError where one is kept: a lost seed is lost money; WalletInUse */
  static async create(name: string, passphrase: string): Promise<BrowserStore> {
    await hold(name)
    const key = await passwordKeyAsync(passphrase)
    // Nothing is awaited between this look and the save.
    requireNone(name)
    const wallet = new Wallet(random(SEED_BYTES))
    const made = new BrowserStore(name, key, wallet, random(SEED_BYTES), undefined, false)
    made.save()
    return made
  }

  /** @throws NotOpened, WalletInUse */
  static async open(name: string, passphrase: string): Promise<BrowserStore> {
    await hold(name)
    const { content, key } = await unsealKept(name, passphrase).catch((error: unknown) => {
      held.get(name)?.()
      throw error
    })
    const payer = fromHex(content.payer_seed ?? '', SEED_BYTES)
    const wallet = new Wallet(fromHex(content.seed, SEED_BYTES)!, content.state)
    const { login, is_admitted = false } = content
    const opened = new BrowserStore(name, key, wallet, payer ?? random(SEED_BYTES), login, is_admitted)
    // A wallet that a program made has no key for fees yet: it is kept before anything is paid to it.
    if (payer === undefined) opened.save()
    return opened
  }

  /** @throws DOMException where the browser's storage is full; the stored wallet stays */
  save(): void {
    const { wallet, payer_seed, login, is_admitted } = this
    const content: Content = {
      seed: toHex(wallet.seed),
      payer_seed: toHex(payer_seed),
      state: wallet.state,
      is_admitted,
      ...(login === undefined ? {} : { login }),
    }
    const sealed = seal(JSON.stringify(content), this.key)
    localStorage.setItem(this.name, JSON.stringify({ version: VERSION, sealed }))
  }

  /** Another page may open it. */
  close(): void {
    held.get(this.name)?.()
  }

  /** The sealed wallet as it is kept: a backup. */
  get text(): string {
    return localStorage.getItem(this.name) ?? ''
  }
}

/** Puts a backup where no wallet is. @throws NotOpened for another form; RangeError where one is kept; WalletInUse */
export async function restoreBackup(name: string, text: string): Promise<void> {
  readSealed(text)
  requireNone(name)
  await hold(name)
  requireNone(name)
  localStorage.setItem(name, text)
}

function requireNone(name: string): void {
  if (BrowserStore.has(name)) throw new RangeError('this browser has a wallet for this venue')
}

const random = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count))

function readSealed(text: string): SealedText {
  const { version, sealed, ...beside } = parsed(text)
  const found = version === VERSION_1 ? { ...beside, box: sealed } : sealed
  if ((version !== VERSION && version !== VERSION_1) || !isSealedText(found))
    throw new NotOpened('this is no sealed wallet')
  return found
}

async function unsealKept(name: string, passphrase: string): Promise<{ content: Content; key: PasswordKey }> {
  const sealed = readSealed(localStorage.getItem(name) ?? '')
  const key = await passwordKeyAsync(passphrase, sealed.salt)
  const text = unseal(sealed, key)
  if (text === undefined) throw new NotOpened('the passphrase is another, or the wallet is damaged')
  return { content: JSON.parse(text) as Content, key }
}

function parsed(text: string): { version?: unknown; sealed?: unknown } {
  try {
    return Object(JSON.parse(text)) as { version?: unknown; sealed?: unknown }
  } catch {
    return {}
  }
}

/** Releases of the names that this page holds. */
const held = new Map<string, () => void>()

async function hold(name: string): Promise<void> {
  if (held.has(name)) return
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const over = Promise.withResolvers<void>()
  void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
    resolve(lock !== null)
    return lock === null ? undefined : over.promise
  })
  if (!(await promise)) throw new WalletInUse('another page has this wallet open: close it first')
  held.set(name, () => {
    held.delete(name)
    over.resolve()
  })
}
