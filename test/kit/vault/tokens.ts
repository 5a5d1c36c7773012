/** Mints and token accounts as bytes, for the program's tests: any state, also those no instruction leads to. */
import { u64Le } from '../../../protocol/bytes'

export const DECIMALS = 6

/** One TLV extension of Token-2022: type and value. */
type Extension = { type: number; value: Uint8Array }

function extended(base: Uint8Array, account_type: number, extensions: readonly Extension[]): Uint8Array {
  const size = extensions.reduce((sum, { value }) => sum + 4 + value.length, 166)
  const bytes = new Uint8Array(size)
  bytes.set(base)
  bytes[165] = account_type
  const view = new DataView(bytes.buffer)
  let at = 166
  for (const { type, value } of extensions) {
    view.setUint16(at, type, true)
    view.setUint16(at + 2, value.length, true)
    bytes.set(value, at + 4)
    at += 4 + value.length
  }
  return bytes
}

export type MintFields = {
  freeze_authority?: Uint8Array
  initialized?: boolean
  extensions?: readonly Extension[]
}

/** A mint with supply `2^60`. */
export function mintBytes(fields: MintFields = {}): Uint8Array {
  const bytes = new Uint8Array(82)
  bytes.set(u64Le(1n << 60n), 36)
  bytes[44] = DECIMALS
  bytes[45] = fields.initialized === false ? 0 : 1
  if (fields.freeze_authority !== undefined) {
    bytes[46] = 1
    bytes.set(fields.freeze_authority, 50)
  }
  return fields.extensions === undefined ? bytes : extended(bytes, 1, fields.extensions)
}

export type TokenFields = {
  mint: Uint8Array
  owner: Uint8Array
  amount?: bigint
  state?: 'uninitialized' | 'initialized' | 'frozen'
  extensions?: readonly Extension[]
}

const STATES = { uninitialized: 0, initialized: 1, frozen: 2 } as const

export function tokenBytes({
  mint,
  owner,
  amount = 0n,
  state = 'initialized',
  extensions,
}: TokenFields): Uint8Array {
  const bytes = new Uint8Array(165)
  bytes.set(mint)
  bytes.set(owner, 32)
  bytes.set(u64Le(amount), 64)
  bytes[108] = STATES[state]
  return extensions === undefined ? bytes : extended(bytes, 2, extensions)
}

export const tokenAmount = (data: Uint8Array): bigint =>
  new DataView(data.buffer, data.byteOffset, data.byteLength).getBigUint64(64, true)
