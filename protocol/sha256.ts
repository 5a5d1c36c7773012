/** SHA-256 over several parts; runs wherever the client runs. */
import { sha256 as noble } from '@noble/hashes/sha2.js'
import { concatBytes } from './bytes'

type NativeHash = { hash(message: Uint8Array, into: Uint8Array): Uint8Array }
/** Bun's own, a tenth of the time. */
const native = (globalThis as { Bun?: { SHA256?: NativeHash } }).Bun?.SHA256
/** Filled and hashed at once, never kept: leaves and nodes of trees are short and many. */
const joined = new Uint8Array(1024)
/** Of its beginning, by length: making a view takes longer than hashing 64 bytes. */
const views: Uint8Array[] = []

export function sha256(...parts: Uint8Array[]): Uint8Array {
  if (native === undefined) return noble(parts.length === 1 ? parts[0]! : concatBytes(...parts))
  return native.hash(parts.length === 1 ? parts[0]! : joinedOf(parts), new Uint8Array(32))
}

/** As `sha256` of one message, into 32 bytes of the caller: hot loops allocate nothing. */
export function sha256Into(message: Uint8Array, into: Uint8Array): void {
  if (native === undefined) into.set(noble(message))
  else native.hash(message, into)
}

function joinedOf(parts: Uint8Array[]): Uint8Array {
  let length = 0
  for (const part of parts) length += part.length
  if (length > joined.length) return concatBytes(...parts)
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  const view = views[length] ?? joined.subarray(0, length)
  views[length] = view
  return view
}
