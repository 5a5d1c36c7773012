/** Agrees on the keys of a link between two nodes by X25519, and seals numbered frames under them (cluster.md "Links"). */

import {
  createCipheriv,
  createDecipheriv,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from 'node:crypto'
import { concatBytes, utf8 } from '../../protocol/bytes'
import { fixed, struct, tryDecode, uint } from '../../protocol/codec'
import { sha256 } from '../../protocol/sha256'
import { LINK_WINDOW } from '../limits'

/** Belongs to one link only. */
export type LinkKey = { public_key: Uint8Array; secret: KeyObject }
export type Side = 'asks' | 'answers'
/** Directions of a link: single questions and answers, and those of the stream. */
type Direction = Side | 'passes' | 'passed'

/** DER of an X25519 SubjectPublicKeyInfo (RFC 8410), before the key. */
const SPKI_PREFIX = Uint8Array.from([0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x6e, 0x03, 0x21, 0x00])
const HEADER = struct({ link: fixed(16), number: uint })
const HEADER_BYTES = HEADER.encode({ link: new Uint8Array(16), number: 0 }).length
const TAG_BYTES = 16

export function linkKey(): LinkKey {
  const { publicKey, privateKey } = generateKeyPairSync('x25519')
  const public_key = new Uint8Array(publicKey.export({ type: 'spki', format: 'der' })).slice(-32)
  return { public_key, secret: privateKey }
}

/** The hash that both quotes carry: it binds each of them to this venue and these two keys. All are 32 bytes. */
export function agreementHash(venue: Uint8Array, asking: Uint8Array, answering: Uint8Array): Uint8Array {
  return sha256(concatBytes(utf8('tacit/link/v1'), venue, asking, answering))
}

/** The frames of one link, from one side. Each side's frames have their own key, and a number is used once. */
export class SealedLink {
  /** Public: names the link to the side that answers. */
  readonly id: Uint8Array
  private readonly keys: Record<Direction, Uint8Array>
  private numbered = 0
  private carrier: object | undefined
  /** The highest number taken, and the taken ones within LINK_WINDOW of it: requests overtake each other. */
  private highest = 0
  private readonly seen = new Set<number>()

  /** @throws when `other` is no point that gives a shared secret */
  constructor(own: LinkKey, other: Uint8Array, agreed: Uint8Array) {
    const key = concatBytes(SPKI_PREFIX, other)
    const publicKey = createPublicKey({ key: Buffer.from(key), format: 'der', type: 'spki' })
    const shared = diffieHellman({ privateKey: own.secret, publicKey })
    const derive = (use: string, bytes: number) =>
      new Uint8Array(hkdfSync('sha256', shared, agreed, `tacit/link/v1/${use}`, bytes))
    this.id = derive('id', 16)
    const [asks, answers] = [derive('asks', 32), derive('answers', 32)]
    this.keys = { asks, answers, passes: derive('passes', 32), passed: derive('passed', 32) }
  }

  /** One connection carries the stream of a link: on a second one its frames and answers could be repeated. @throws Error */
  carriedBy(connection: object): void {
    this.carrier ??= connection
    if (this.carrier !== connection) throw new Error('another connection carries this link')
  }

  /** A number that no frame of this link had. */
  next(): number {
    return ++this.numbered
  }

  seal(side: Direction, number: number, content: Uint8Array): Uint8Array {
    const header = HEADER.encode({ link: this.id, number })
    const cipher = createCipheriv('aes-256-gcm', this.keys[side], nonceOf(number))
    cipher.setAAD(header)
    return concatBytes(header, cipher.update(content), cipher.final(), cipher.getAuthTag())
  }

  /** Undefined for bytes that are no frame of that side of this link. */
  open(side: Direction, frame: Uint8Array): { number: number; content: Uint8Array } | undefined {
    const tag_at = frame.length - TAG_BYTES
    const header = frame.slice(0, HEADER_BYTES)
    const read = headerOf(frame)
    if (read === undefined || tag_at < HEADER_BYTES) return undefined
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.keys[side], nonceOf(read.number))
      decipher.setAAD(header)
      decipher.setAuthTag(frame.subarray(tag_at))
      const content = decipher.update(frame.subarray(HEADER_BYTES, tag_at))
      return { number: read.number, content: concatBytes(content, decipher.final()) }
    } catch {
      return undefined
    }
  }

  /** Like `open`, and undefined for a number that was taken before or is older than the window: no frame counts twice. */
  take(side: Side, frame: Uint8Array): { number: number; content: Uint8Array } | undefined {
    const opened = this.open(side, frame)
    if (opened === undefined) return undefined
    const { number } = opened
    if (this.seen.has(number) || number <= this.highest - LINK_WINDOW) return undefined
    this.seen.add(number)
    this.highest = Math.max(this.highest, number)
    for (const one of this.seen) if (one <= this.highest - LINK_WINDOW) this.seen.delete(one)
    return opened
  }
}

/** In clear, before the frame is opened. */
export const headerOf = (frame: Uint8Array) => tryDecode(() => HEADER.decode(frame.slice(0, HEADER_BYTES)))

function nonceOf(number: number): Uint8Array {
  const nonce = new Uint8Array(12)
  new DataView(nonce.buffer).setBigUint64(4, BigInt(number))
  return nonce
}
