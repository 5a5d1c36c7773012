/** An account as RPC JSON in the encoding a caller asks for. */
import { encodeBase58 } from '../../../protocol/base58'
import type { BankAccount } from './bank'
import type { Config } from './params'
import { invalidParams } from './rpc_error'

/** An account never pays rent again once exempt: nodes answer the largest u64. */
const RENT_EPOCH = 0xffff_ffff_ffff_ffffn
const BASE58_DATA_MAX = 128

/**
 * `encoding`: base64 (also answered for jsonParsed, as a node does without a parser), base58 or base64 by default like
 * a node; `dataSlice` cuts the data, never `space`.
 */
export function accountJson(account: BankAccount | undefined, config: Config): unknown {
  if (!account) return null
  const { lamports, owner, executable } = account
  const slice = config['dataSlice'] as { offset: number; length: number } | undefined
  const data = slice ? account.data.subarray(slice.offset, slice.offset + slice.length) : account.data
  return {
    lamports,
    owner,
    executable,
    rentEpoch: RENT_EPOCH,
    space: account.data.length,
    data: dataJson(data, config['encoding']),
  }
}

function dataJson(data: Uint8Array, encoding: unknown): unknown {
  if (encoding === 'base64' || encoding === 'jsonParsed')
    return [Buffer.from(data).toString('base64'), 'base64']
  if (encoding !== undefined && encoding !== 'base58') throw invalidParams('encoding not supported')
  if (data.length > BASE58_DATA_MAX) throw invalidParams('data longer than 128 bytes needs encoding base64')
  return encoding === 'base58' ? [encodeBase58(data), 'base58'] : encodeBase58(data)
}
