/** Events of the vault in landed transactions: instructions the program sent to itself, never log text. */
import { decodeTransactionFromRpcResponse, type Signature } from '@solana/kit'
import { decodeEvent, type VaultEvent } from '../../protocol/vault/events'
import { innerDataOf } from '../../protocol/vault/inner_data'
import type { ChainReader } from './chain_access'
import { patientRead } from './patient_read'

/**
 * Data of the instructions the program got from programs in one transaction, its own events among them, in order; empty
 * for a failed one, undefined when the node does not serve it at `commitment`.
 */
export async function readTransactionData(
  { rpc }: ChainReader,
  program_id: string,
  signature: Signature,
  commitment: 'confirmed' | 'finalized',
): Promise<Uint8Array[] | undefined> {
  const config = { commitment, encoding: 'base64', maxSupportedTransactionVersion: 1 } as const
  const found = await patientRead(() => rpc.getTransaction(signature, config).send())
  if (!found?.meta) return undefined
  if (found.meta.err !== null) return []
  const { compiledMessage, loadedAddresses } = decodeTransactionFromRpcResponse(found)
  const named = { own: compiledMessage.staticAccounts, loaded: loadedAddresses }
  return innerDataOf(program_id, named, found.meta.innerInstructions).map(({ data }) => data)
}

/** The events among them. */
export function eventsOf(data: readonly Uint8Array[]): VaultEvent[] {
  return data.flatMap((one) => decodeEvent(one) ?? [])
}
