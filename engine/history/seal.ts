/** Owns how contents lie on the disk: encrypted, each bound to its place. */
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { getSafe, setSafe } from '../journal/segment_header'

/** Sealed value: salt id u32, counter u64, tag 16, ciphertext. */
const HEADER_BYTES = 28

/** Salt of every opening of the database, by id; each makes a key that only one process ever encrypts under. */
export type SaltOf = (id: number) => Uint8Array | undefined

/** Encrypts rows. The counter is the nonce; a new opening has a new salt, hence a new key. */
export class Sealer {
  readonly #key: Uint8Array
  #counter = 0
  constructor(
    key: Uint8Array,
    private readonly salt_id: number,
    salt: Uint8Array,
  ) {
    this.#key = derive(key, salt, 'rows')
  }

  /** `row` names table and key, so that a value opens only where it was put. */
  seal(row: string, text: string): Uint8Array {
    const plain = Buffer.from(text)
    const sealed = new Uint8Array(HEADER_BYTES + plain.length)
    const view = new DataView(sealed.buffer)
    view.setUint32(0, this.salt_id, true)
    setSafe(view, 4, ++this.#counter)
    const cipher = createCipheriv('aes-256-gcm', this.#key, sealed.subarray(0, 12))
    cipher.setAAD(Buffer.from(row))
    sealed.set(cipher.update(plain), HEADER_BYTES)
    cipher.final()
    sealed.set(cipher.getAuthTag(), 12)
    return sealed
  }
}

export class Unsealer {
  readonly #keys = new Map<number, Uint8Array>()
  constructor(
    private readonly key: Uint8Array,
    private readonly saltOf: SaltOf,
  ) {}

  /** @throws Error when the value was not sealed for this row with this key. */
  unseal(row: string, sealed: Uint8Array): string {
    const view = new DataView(sealed.buffer, sealed.byteOffset, sealed.byteLength)
    if (sealed.length < HEADER_BYTES || getSafe(view, 4) === 0) throw new Error('not a sealed value')
    const decipher = createDecipheriv(
      'aes-256-gcm',
      this.#keyOf(view.getUint32(0, true)),
      sealed.subarray(0, 12),
    )
    decipher.setAAD(Buffer.from(row))
    decipher.setAuthTag(sealed.subarray(12, HEADER_BYTES))
    const plain = decipher.update(sealed.subarray(HEADER_BYTES))
    decipher.final()
    return plain.toString('utf8')
  }

  #keyOf(id: number): Uint8Array {
    const known = this.#keys.get(id)
    if (known !== undefined) return known
    const salt = this.saltOf(id)
    if (salt === undefined) throw new Error('sealed under an unknown salt')
    const key = derive(this.key, salt, 'rows')
    this.#keys.set(id, key)
    return key
  }
}

export function derive(key: Uint8Array, salt: Uint8Array, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, salt, `tacit/history/v2/${purpose}`, 32))
}
