/** Asks the embedded chain for test money; other clusters have no such methods. */
import { NODE_CALL_MS } from '../limits'
import { askNode } from './ask_node'
import type { ChainAccess } from './chain_access'
import { TransactionFailed } from './send_instructions'

async function ask(rpc_url: string, method: string, params: unknown): Promise<string> {
  const payload = { jsonrpc: '2.0', id: 1, method, params }
  const answer = await askNode(rpc_url, payload, NODE_CALL_MS)
  if ('error' in answer) throw new TransactionFailed(`${method}: ${Object(answer.error).message}`)
  return answer.result as string
}

/** Gives the payer lamports for fees. @throws TransactionFailed */
export function airdrop(chain: ChainAccess, lamports: bigint): Promise<string> {
  return ask(chain.rpc_url, 'requestAirdrop', [chain.payer.address, Number(lamports)])
}

/**
 * Mints base units into the payer's associated account. @param mint base58
 * @throws TransactionFailed
 */
export function mintTo(chain: ChainAccess, mint: string, amount: bigint): Promise<string> {
  return ask(chain.rpc_url, 'tacit_mintTo', [{ mint, owner: chain.payer.address, amount: String(amount) }])
}
