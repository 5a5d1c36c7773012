/** Seals texts by XChaCha20-Poly1305, under a key that argon2id makes of a password (the form of every wallet) or a given key. */
import { xchacha20poly1305 } from '@noble/ciphers/chacha.js'
import { argon2id, argon2idAsync } from '@noble/hashes/argon2.js'
import { PASSPHRASE_COST } from '../../protocol/bodies/account'
import { concatBytes, fromHex, toHex, utf8 } from '../../protocol/bytes'

const [SALT_BYTES, NONCE_BYTES] = [16, 24]

/** A key and the salt it was derived under; 64 MiB and a second or more, a tenth of that where the platform has argon2id. */
export type PasswordKey = { readonly salt: string; readonly key: Uint8Array }
/** The form in a file or a browser's storage; `box` is the ciphertext with its tag. Hex. */
export type SealedText = { salt: string; nonce: string; box: string }

type Native = (kind: 'argon2id', parameters: object) => Uint8Array
/** Of Bun and Node from 24.7. */
const native = (): Native | undefined =>
  typeof process === 'undefined'
    ? undefined
    : (process.getBuiltinModule?.('node:crypto') as { argon2Sync?: Native } | undefined)?.argon2Sync

/** @param salt of a sealed text; a new one when absent */
export function passwordKey(password: string, salt = newSalt()): PasswordKey {
  const [message, nonce] = [utf8(password.normalize('NFKC')), fromHex(salt, SALT_BYTES)!]
  const { m: memory, t: passes, p: parallelism, dkLen: tagLength } = PASSPHRASE_COST
  const derive = native()
  const key =
    derive === undefined
      ? argon2id(message, nonce, PASSPHRASE_COST)
      : derive('argon2id', { message, nonce, memory, passes, parallelism, tagLength })
  return { salt, key: new Uint8Array(key) }
}

/** The same key, without stopping a page meanwhile. */
export async function passwordKeyAsync(password: string, salt = newSalt()): Promise<PasswordKey> {
  const message = utf8(password.normalize('NFKC'))
  return { salt, key: await argon2idAsync(message, fromHex(salt, SALT_BYTES)!, PASSPHRASE_COST) }
}

const newSalt = (): string => toHex(crypto.getRandomValues(new Uint8Array(SALT_BYTES)))

export function seal(text: string, { salt, key }: PasswordKey): SealedText {
  const bytes = sealBytes(text, key)
  return { salt, nonce: toHex(bytes.subarray(0, NONCE_BYTES)), box: toHex(bytes.subarray(NONCE_BYTES)) }
}

/** Undefined for another key or changed bytes. */
export const unseal = ({ nonce, box }: SealedText, { key }: PasswordKey): string | undefined =>
  unsealBytes(hexBytes(`${nonce}${box}`) ?? new Uint8Array(), key)

/** A new nonce, then the ciphertext with its tag. @param use authenticated and not stored */
export function sealBytes(text: string, key: Uint8Array, use = ''): Uint8Array {
  const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES))
  const box = xchacha20poly1305(key, nonce, utf8(use)).encrypt(utf8(text))
  return concatBytes(nonce, box)
}

/** Undefined for another key, use or changed bytes. */
export function unsealBytes(bytes: Uint8Array, key: Uint8Array, use = ''): string | undefined {
  try {
    const cipher = xchacha20poly1305(key, bytes.subarray(0, NONCE_BYTES), utf8(use))
    return new TextDecoder().decode(cipher.decrypt(bytes.subarray(NONCE_BYTES)))
  } catch {
    return undefined
  }
}

export const hexBytes = (text: string): Uint8Array | undefined => fromHex(text, Math.floor(text.length / 2))

/** Whether a parsed value has the form. */
export function isSealedText(value: unknown): value is SealedText {
  const { salt, nonce, box } = Object(value) as Partial<Record<keyof SealedText, unknown>>
  const is = (text: unknown, width?: number) =>
    typeof text === 'string' && (width === undefined ? hexBytes(text) : fromHex(text, width)) !== undefined
  return is(salt, SALT_BYTES) && is(nonce, NONCE_BYTES) && is(box) && box !== ''
}
