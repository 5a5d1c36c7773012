/**
 * Keeps a wallet in the browser's storage, sealed under a passphrase: argon2id makes the key, XChaCha20-Poly1305 seals. A
 * save is whole or throws. One page at a time holds it, since two would use a blinding twice.
 */
import { xchacha20poly1305 } from '@noble/ciphers/chacha.js'
import { argon2idAsync } from '@noble/hashes/argon2.js'
import { PASSPHRASE_COST } from '../../protocol/bodies/account'
import { fromHex, toHex, utf8 } from '../../protocol/bytes'
import type { Login } from '../api/venue_client'
import { Wallet, type WalletState } from '../wallet/wallet'
import type { WalletStore } from '../wallet/wallet_store'

const VERSION = 1
const [SALT_BYTES, NONCE_BYTES, SEED_BYTES] = [16, 24, 32]

type Sealed = { version: number; salt: string; nonce: string; sealed: string }
type Content = { seed: string; payer_seed: string; state: WalletState; login?: Login; is_admitted?: boolean }

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
    private readonly key: Uint8Array,
    private readonly salt: Uint8Array,
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
    if (BrowserStore.has(name)) throw new RangeError('this browser has a wallet for this venue')
    const salt = random(SALT_BYTES)
    const key = await keyOf(passphrase, salt)
    const wallet = new Wallet(random(SEED_BYTES))
    const made = new BrowserStore(name, key, salt, wallet, random(SEED_BYTES), undefined, false)
    made.save()
    return made
  }

  /** @throws NotOpened, WalletInUse */
  static async open(name: string, passphrase: string): Promise<BrowserStore> {
    await hold(name)
    const { salt, nonce, sealed } = readSealed(localStorage.getItem(name) ?? '')
    const key = await keyOf(passphrase, salt)
    const content = openSealed(key, nonce, sealed)
    const [seed, payer] = [fromHex(content.seed, SEED_BYTES)!, fromHex(content.payer_seed, SEED_BYTES)!]
    const wallet = new Wallet(seed, content.state)
    return new BrowserStore(name, key, salt, wallet, payer, content.login, content.is_admitted === true)
  }

  /** @throws DOMException where the browser's storage is full; what was kept before stays */
  save(): void {
    const { wallet, payer_seed, login, is_admitted } = this
    const content: Content = {
      seed: toHex(wallet.seed),
      payer_seed: toHex(payer_seed),
      state: wallet.state,
      is_admitted,
      ...(login === undefined ? {} : { login }),
    }
    const nonce = random(NONCE_BYTES)
    const sealed = toHex(xchacha20poly1305(this.key, nonce).encrypt(utf8(JSON.stringify(content))))
    const text: Sealed = { version: VERSION, salt: toHex(this.salt), nonce: toHex(nonce), sealed }
    localStorage.setItem(this.name, JSON.stringify(text))
  }

  /** The sealed wallet as it is kept: a backup. */
  get text(): string {
    return localStorage.getItem(this.name) ?? ''
  }
}

/** Puts a backup where no wallet is. @throws NotOpened for another form; RangeError where one is kept */
export function restoreBackup(name: string, text: string): void {
  readSealed(text)
  if (BrowserStore.has(name)) throw new RangeError('this browser has a wallet for this venue')
  localStorage.setItem(name, text)
}

const random = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count))
const keyOf = (passphrase: string, salt: Uint8Array): Promise<Uint8Array> =>
  argon2idAsync(passphrase, salt, PASSPHRASE_COST)

function readSealed(text: string): { salt: Uint8Array; nonce: Uint8Array; sealed: Uint8Array } {
  const { version, salt, nonce, sealed } = parsed(text)
  const bytes = [fromHex(String(salt), SALT_BYTES), fromHex(String(nonce), NONCE_BYTES)] as const
  const body = typeof sealed === 'string' ? fromHex(sealed, sealed.length / 2) : undefined
  if (version !== VERSION || bytes[0] === undefined || bytes[1] === undefined || body === undefined)
    throw new NotOpened('this is no sealed wallet')
  return { salt: bytes[0], nonce: bytes[1], sealed: body }
}

function openSealed(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array): Content {
  try {
    return JSON.parse(new TextDecoder().decode(xchacha20poly1305(key, nonce).decrypt(sealed))) as Content
  } catch {
    throw new NotOpened('the passphrase is another, or the wallet is damaged')
  }
}

function parsed(text: string): Partial<Sealed> {
  try {
    return Object(JSON.parse(text)) as Partial<Sealed>
  } catch {
    return {}
  }
}

/** Names that this page holds until it is closed. */
const held = new Set<string>()

async function hold(name: string): Promise<void> {
  if (held.has(name)) return
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const never = new Promise<void>(() => undefined)
  void navigator.locks.request(name, { ifAvailable: true }, (lock) => {
    resolve(lock !== null)
    return lock === null ? undefined : never
  })
  if (!(await promise)) throw new WalletInUse('another page has this wallet open: close it first')
  held.add(name)
}
