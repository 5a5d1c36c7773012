/** Asks the app's contract (dstack `DstackApp`) whether a manifest may get the app's keys. */
import { keccak_256 } from '@noble/hashes/sha3.js'
import { toHex, utf8 } from '../../../protocol/bytes'
import type { KmsPolicy } from '../policy'
import { callRpc, RpcUnavailable } from './json_rpc'

/** First four bytes of the hash of the signature (Ethereum contract ABI, "Function selector"). */
const SELECTOR = toHex(keccak_256(utf8('allowedComposeHashes(bytes32)')).subarray(0, 4))

/** @param app_id 40 hex digits, the contract's address. @throws RpcUnavailable when the answer is not a boolean. */
export async function collectKms(
  policy: KmsPolicy,
  app_id: string,
  compose_hash: string,
  timeout_ms: number,
): Promise<boolean> {
  const call = { to: `0x${app_id}`, data: `0x${SELECTOR}${compose_hash}` }
  const result = await callRpc(policy.rpc_url, 'eth_call', [call, 'latest'], timeout_ms)
  if (result === `0x${'0'.repeat(63)}1`) return true
  if (result === `0x${'0'.repeat(64)}`) return false
  throw new RpcUnavailable('the contract did not answer with a boolean')
}
