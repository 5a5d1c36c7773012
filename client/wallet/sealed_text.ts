/** Encrypts a text under a password: scrypt, then AES-256-GCM with the header as associated data. Bun and Node. */
import { SCRYPT_COST, SCRYPT_COST_MAX } from '../limits'

/** Asked for when it is used: a browser's bundle has no such module. */
const platform = (): typeof import('node:crypto') => process.getBuiltinModule('node:crypto')

/** Twice what the highest accepted cost takes. */
const MEMORY_MAX = 256 * SCRYPT_COST_MAX * 8
const HEX = (bytes: number) => new RegExp(`^[0-9a-f]{${2 * bytes}}$`)

/** A key and the facts it was derived from; deriving it takes half a second and 128 MiB. */
export type PasswordKey = { readonly scrypt_cost: number; readonly salt: string; readonly key: Uint8Array }
/** As it stands in a file; `box` is the ciphertext with its tag, base64. */
export type SealedText = { scrypt_cost: number; salt: string; nonce: string; box: string }

export function newPasswordKey(password: string): PasswordKey {
  return derive(password, SCRYPT_COST, platform().randomBytes(16).toString('hex'))
}

/** The key that opens `sealed`, if the password is the right one. @throws RangeError for another form */
export function passwordKeyOf(password: string, sealed: SealedText): PasswordKey {
  return derive(password, sealed.scrypt_cost, sealed.salt)
}

function derive(password: string, scrypt_cost: number, salt: string): PasswordKey {
  const cost = { N: scrypt_cost, r: 8, p: 1, maxmem: MEMORY_MAX }
  const key = platform().scryptSync(password.normalize('NFKC'), Buffer.from(salt, 'hex'), 32, cost)
  return { scrypt_cost, salt, key: new Uint8Array(key) }
}

export function seal(text: string, { scrypt_cost, salt, key }: PasswordKey): SealedText {
  const { createCipheriv, randomBytes } = platform()
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  const head = { scrypt_cost, salt, nonce: nonce.toString('hex') }
  cipher.setAAD(Buffer.from(JSON.stringify(head)))
  const box = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
  return { ...head, box: box.toString('base64') }
}

/** Undefined for another key or changed bytes. */
export function unseal(
  { scrypt_cost, salt, nonce, box }: SealedText,
  { key }: PasswordKey,
): string | undefined {
  const { createDecipheriv } = platform()
  const bytes = Buffer.from(box, 'base64')
  const decipher = createDecipheriv('aes-256-gcm', key, Buffer.from(nonce, 'hex'), { authTagLength: 16 })
  decipher.setAAD(Buffer.from(JSON.stringify({ scrypt_cost, salt, nonce })))
  try {
    decipher.setAuthTag(bytes.subarray(-16))
    return Buffer.concat([decipher.update(bytes.subarray(0, -16)), decipher.final()]).toString('utf8')
  } catch {
    return undefined
  }
}

/** Whether a parsed value has the form; a file may not ask for more work or memory than the highest cost takes. */
export function isSealedText(value: unknown): value is SealedText {
  const { scrypt_cost, salt, nonce, box } = Object(value) as Partial<Record<keyof SealedText, unknown>>
  const is = (text: unknown, form: RegExp) => typeof text === 'string' && form.test(text)
  const cost = typeof scrypt_cost === 'number' ? scrypt_cost : 0
  const is_cost = Number.isInteger(Math.log2(cost)) && cost >= 2 ** 14 && cost <= SCRYPT_COST_MAX
  return is_cost && is(salt, HEX(16)) && is(nonce, HEX(12)) && is(box, /^[A-Za-z0-9+/]{22,}={0,2}$/)
}
