/** Owns what the disk may see of names: keyed hashes of texts, and ids under a keyed permutation. */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { derive } from './seal'

const NAME_BYTES = 16
const ID_BYTES = 16
/** Marks fit a JSON number; those of one account are a few statuses and symbols, so none coincide. */
const MARK_BYTES = 6
/** Marks that are kept; the map is emptied beyond it. */
const MARKS_KEPT = 10_000
const NO_SALT = new Uint8Array(0)

/** 16 bytes that stand for an account, and marks for what its orders are filtered by; they reveal nothing of either. */
export class Names {
  readonly #key: Uint8Array
  readonly #marks = new Map<string, number>()
  constructor(key: Uint8Array) {
    this.#key = derive(key, NO_SALT, 'names')
  }

  account(account_id: string): Uint8Array {
    return new Uint8Array(this.#mac('account', account_id).subarray(0, NAME_BYTES))
  }

  /** A number that stands for a status or symbol of this account's orders; another account has another one for it. */
  mark(kind: 'status' | 'symbol', account_id: string, value: string): number {
    const text = `${kind}\u0000${account_id}\u0000${value}`
    let mark = this.#marks.get(text)
    if (mark === undefined) {
      if (this.#marks.size >= MARKS_KEPT) this.#marks.clear()
      mark = this.#mac(kind, account_id, value).readUIntBE(0, MARK_BYTES)
      this.#marks.set(text, mark)
    }
    return mark
  }

  #mac(...parts: string[]): Buffer {
    return createHmac('sha256', this.#key).update(parts.join('\u0000')).digest()
  }
}

export type IdKind = 'order' | 'withdrawal' | 'reshape'

/**
 * Ids of 16 bytes as the disk knows them. An id is one block of AES, so the cipher alone is a keyed permutation of ids:
 * without the key it looks random, and equal ids stay equal, which an index needs.
 */
export class HiddenIds {
  readonly #hide
  readonly #reveal
  constructor(key: Uint8Array, kind: IdKind) {
    const own_key = derive(key, NO_SALT, `ids/${kind}`)
    this.#hide = createCipheriv('aes-256-ecb', own_key, null).setAutoPadding(false)
    this.#reveal = createDecipheriv('aes-256-ecb', own_key, null).setAutoPadding(false)
  }

  /** Of 32 hex digits. */
  hide(id: string): Uint8Array {
    const bytes = Buffer.from(id, 'hex')
    // Part of a block would stay in the cipher and spoil the next id.
    if (bytes.length !== ID_BYTES) throw new RangeError('an id has 16 bytes')
    return this.#hide.update(bytes)
  }

  reveal(hidden: Uint8Array): string {
    return this.#reveal.update(hidden, undefined, 'hex')
  }
}
