/** Encrypts rows for the disk: contents bound to their row, names and ids hidden under keys. */

import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto'
import { ByteReader } from '../../protocol/byte_stream'
import { concatBytes, toHex } from '../../protocol/bytes'
import { fixed, struct, u32, uint } from '../../protocol/codec'
import type { ChainPoint } from '../../protocol/units'
import type * as wire from '../../protocol/wire/trading'
import { LIMITS } from '../limits'
import { LruTexts } from '../memory/texts'

/** The name of a row is the associated data of its encryption. A block is identified by its first seq. */
export const blockRow = (account_id: string, seq_first: number): string => `block/${account_id}/${seq_first}`
/** `account` is the account's number in the database. */
export const accountRow = (account: number): string => `account/${account}`

export const isOpen = (status: wire.OrderStatus): boolean =>
  status === 'accepted' || status === 'partially_filled'

/** A withdrawal ends with its payout, a reshape with its settlement batch. */
export const isFinalPayment = (payment: wire.Withdrawal | wire.Reshape): boolean =>
  ('withdrawal_id' in payment ? ['paid', 'refunded', 'voided'] : ['finalized', 'voided']).includes(
    payment.status,
  )

/** Precedes the ciphertext. */
const SEALED = struct({ nonce: fixed(12), tag: fixed(16) })
/** The nonce of `Sealer`. */
const NONCE = struct({ salt_id: u32, counter: uint })

/** AES-256-GCM of a text, bound to the name of its row. No nonce may be used twice under a key. */
export function sealText(
  key: Uint8Array,
  nonce: Uint8Array,
  row: string,
  text: string | Uint8Array,
): Uint8Array {
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(row))
  const parts = [typeof text === 'string' ? cipher.update(text, 'utf8') : cipher.update(text), cipher.final()]
  return concatBytes(SEALED.encode({ nonce, tag: cipher.getAuthTag() }), ...parts)
}

/** @throws Error when the value was not sealed for this row with this key */
export function unsealText(key: Uint8Array, row: string, sealed: Uint8Array): string {
  const from = new ByteReader(sealed)
  const { nonce, tag } = SEALED.read(from)
  const decipher = createDecipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(row)).setAuthTag(tag)
  const plain = decipher.update(sealed.subarray(from.at))
  decipher.final()
  return plain.toString('utf8')
}

/** Salts by id. Each opening of the database adds one, so only one process encrypts under a key. */
type SaltOf = (id: number) => Uint8Array | undefined

/** Encrypts contents. The nonce is the salt id and a counter; each opening has a new salt, hence a new key. */
export class Sealer {
  private readonly key: Uint8Array
  private counter = 0
  constructor(
    key: Uint8Array,
    private readonly salt_id: number,
    salt: Uint8Array,
  ) {
    this.key = derive(key, salt, 'rows')
  }

  /** `row` names table and key: a value decrypts only in its own row. */
  seal(row: string, text: string | Uint8Array): Uint8Array {
    const nonce = NONCE.encode({ salt_id: this.salt_id, counter: ++this.counter })
    return sealText(this.key, nonce, row, text)
  }
}

export class Unsealer {
  private readonly keys = new Map<number, Uint8Array>()
  constructor(
    private readonly key: Uint8Array,
    private readonly saltOf: SaltOf,
  ) {}

  /** @throws Error when the value was not sealed for this row with this key */
  unseal(row: string, sealed: Uint8Array): string {
    const { salt_id, counter } = NONCE.read(new ByteReader(sealed))
    if (counter === 0) throw new Error('not a sealed value')
    return unsealText(this.keyOf(salt_id), row, sealed)
  }

  private keyOf(id: number): Uint8Array {
    const known = this.keys.get(id)
    if (known !== undefined) return known
    const salt = this.saltOf(id)
    if (salt === undefined) throw new Error('sealed under an unknown salt')
    const key = derive(this.key, salt, 'rows')
    this.keys.set(id, key)
    return key
  }
}

function derive(key: Uint8Array, salt: Uint8Array, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, salt, `tacit/history/v2/${purpose}`, 32))
}

const NAME_BYTES = 16
const ID_BYTES = 16
/** A mark fits a JavaScript number; accounts are few, and so are their statuses and symbols, and the slots of one id's fills: a collision is negligible. */
const MARK_BYTES = 6
const TIME_BYTES = 4
const MS_PER_HOUR = 3_600_000
const NO_SALT = new Uint8Array(0)

/** Keyed values for the disk: name and number of an account, marks to filter rows by, and the hour to prune by. */
export class Names {
  private readonly key: Uint8Array
  private readonly marks = new LruTexts<number>(LIMITS.history_marks_max)
  private first_hour: number | undefined
  private first_slot: number | undefined
  constructor(key: Uint8Array) {
    this.key = derive(key, NO_SALT, 'names')
  }

  account(account_id: string): Uint8Array {
    return new Uint8Array(this.mac('account', account_id).subarray(0, NAME_BYTES))
  }

  /** The number of an account in the database. */
  number(account_id: string): number {
    return this.mac('number', account_id).readUIntBE(0, MARK_BYTES)
  }

  /** The mark of a status, symbol, slot or flag; it differs between accounts, which `number` names. */
  mark(
    kind: 'status' | 'symbol' | 'open' | 'final' | 'slot',
    account: number,
    value: string | number | boolean,
  ): number {
    const text = `${kind}\u0000${account}\u0000${value}`
    let mark = this.marks.get(text)
    if (mark === undefined) {
      mark = this.mac(kind, String(account), String(value)).readUIntBE(0, MARK_BYTES)
      this.marks.set(text, mark, 1)
    }
    return mark
  }

  /** The hour of a time, counted from a secret one: enough to prune by, and no time of a single event. */
  hour(unix_ms: number): number {
    this.first_hour ??= this.mac('hour').readUIntBE(0, TIME_BYTES)
    return Math.floor(unix_ms / MS_PER_HOUR) + this.first_hour
  }

  /** A slot, counted from a secret one. */
  slot(slot: number): number {
    this.first_slot ??= this.mac('slot').readUIntBE(0, TIME_BYTES)
    return slot + this.first_slot
  }

  private mac(...parts: string[]): Buffer {
    return createHmac('sha256', this.key).update(parts.join('\u0000')).digest()
  }
}

const POINT_ROW = 'meta/point'

/** The journal's point that the rows belong to, for the disk: no other process can state another. */
export function sealPoint(sealer: Sealer, { seq, head }: ChainPoint): Uint8Array {
  return sealer.seal(POINT_ROW, JSON.stringify({ seq, head: toHex(head) }))
}

/** @throws Error when it was not sealed with this key */
export function unsealPoint(unsealer: Unsealer, sealed: Uint8Array): ChainPoint {
  const { seq, head } = JSON.parse(unsealer.unseal(POINT_ROW, sealed)) as { seq: number; head: string }
  return { seq, head: Uint8Array.fromHex(head) }
}

export type IdKind = 'order' | 'withdrawal' | 'reshape'

/**
 * Encrypts 16-byte ids for the disk. An id is one AES block, so ECB is a keyed permutation of ids: without the key it
 * looks random, and equal ids stay equal, which an index needs.
 */
export class HiddenIds {
  private readonly cipher
  private readonly decipher
  constructor(key: Uint8Array, kind: IdKind) {
    const own_key = derive(key, NO_SALT, `ids/${kind}`)
    this.cipher = createCipheriv('aes-256-ecb', own_key, null).setAutoPadding(false)
    this.decipher = createDecipheriv('aes-256-ecb', own_key, null).setAutoPadding(false)
  }

  /** `id` is 32 hex digits. */
  hide(id: string): Uint8Array {
    const bytes = Buffer.from(id, 'hex')
    if (id.length !== 2 * ID_BYTES || bytes.length !== ID_BYTES) throw new RangeError('an id has 16 bytes')
    return this.hideAll(bytes)[0]!
  }

  /** `ids` are one behind the other. One call for all of a batch, because a call takes longer than a block. */
  hideAll(ids: Uint8Array): Uint8Array[] {
    const hidden = this.cipher.update(ids)
    return Array.from({ length: ids.length / ID_BYTES }, (_, at) =>
      hidden.subarray(at * ID_BYTES, (at + 1) * ID_BYTES),
    )
  }

  reveal(hidden: Uint8Array): string {
    return this.decipher.update(hidden, undefined, 'hex')
  }
}
