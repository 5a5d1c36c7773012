/** Knows the settlements among the transactions that arrive at an embedded chain, so that a test drops them and no commit. */
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { decodeSettleData } from '../../../protocol/vault/settle'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'

/** Whether the signature is that of a settlement that arrived after this call. */
export function settlementsOf({ machine }: OpenedChain): (signature: string) => boolean {
  const settlements = new Set<string>()
  const enqueue = machine.enqueue.bind(machine)
  machine.enqueue = (decoded) => {
    const settles = transactionInstructions(decoded.bytes).some(
      ({ data }) => decodeSettleData(data) !== undefined,
    )
    if (settles) settlements.add(decoded.signature!)
    enqueue(decoded)
  }
  return (signature) => settlements.has(signature)
}
