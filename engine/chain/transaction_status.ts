/** Where transactions stand on chain, by signature. */
import type { Signature } from '@solana/kit'
import type { ChainClient } from './chain_client'

/** Signatures one request may ask for. */
export const STATUSES_MAX = 256

export type TransactionStatus = {
  slot: number
  level: 'processed' | 'confirmed' | 'finalized'
  /** TransactionError as RPC JSON, null for success. */
  error: unknown
}

/** Undefined for a signature the chain does not know. @throws ChainUnavailable */
export async function transactionStatuses(
  { rpc }: Pick<ChainClient, 'rpc'>,
  signatures: readonly Signature[],
): Promise<(TransactionStatus | undefined)[]> {
  const { value } = await rpc.read((endpoint, abortSignal) =>
    endpoint.getSignatureStatuses([...signatures], { searchTransactionHistory: true }).send({ abortSignal }),
  )
  return value.map((status) =>
    status
      ? { slot: Number(status.slot), level: status.confirmationStatus ?? 'processed', error: status.err }
      : undefined,
  )
}

/** Confirmed block height: a transaction is expired once it exceeds its last valid one. @throws ChainUnavailable */
export async function blockHeight({ rpc }: Pick<ChainClient, 'rpc'>): Promise<number> {
  const height = await rpc.read((endpoint, abortSignal) =>
    endpoint.getBlockHeight({ commitment: 'confirmed' }).send({ abortSignal }),
  )
  return Number(height)
}
