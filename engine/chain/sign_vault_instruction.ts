/** Turns a vault instruction into signed bytes: simulated once, compute limit with a margin, priority fee. */
import { type Base64EncodedWireTransaction, getBase64Decoder } from '@solana/kit'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { buildFitting } from './build_fitting'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  type Lifetime,
  type SignedTransaction,
} from './build_transaction'
import type { ChainClient } from './chain_client'
import { priorityFee, priorityPrice } from './priority_fee'
import { failureOf, type TransactionFailure } from './transaction_failure'
import { toInstruction } from './vault_instruction'

export type Signing = { signed: SignedTransaction } | { failure: TransactionFailure }

/** On top of what the simulation used: state may have grown until the transaction lands. */
const MARGIN_UNITS = 10_000

/**
 * @param attempt number of earlier transactions for the same purpose; raises the fee
 * @throws ChainUnavailable
 */
export async function signVaultInstruction(
  client: ChainClient,
  vault: VaultInstruction,
  attempt: number,
): Promise<Signing> {
  const { rpc, signer } = client
  const instructions = [toInstruction(vault, [signer])]
  const lifetime = await latestLifetime(client)
  const compute_units_max = { compute_units: COMPUTE_UNITS_MAX, priority_fee_lamports: 0n }
  const draft = { payer: signer, instructions, lifetime, ...compute_units_max }
  const trial = await buildFitting(draft, client.transactions)
  if ('failure' in trial) return trial
  const simulation = await rpc.read((endpoint, abortSignal) =>
    endpoint
      .simulateTransaction(wireText(trial.signed.wire), {
        commitment: 'confirmed',
        encoding: 'base64',
        sigVerify: false,
      })
      .send({ abortSignal }),
  )
  const { err, unitsConsumed } = simulation.value
  if (err !== null) return { failure: failureOf(err) }
  const used = Number(unitsConsumed ?? COMPUTE_UNITS_MAX)
  const compute_units = Math.min(COMPUTE_UNITS_MAX, Math.ceil(used * 1.1) + MARGIN_UNITS)
  const priority_fee_lamports = priorityFee(client.fees, await priorityPrice(client), compute_units, attempt)
  const { version } = trial
  return { signed: await buildTransaction({ ...draft, version, compute_units, priority_fee_lamports }) }
}

/** A blockhash to sign with. @throws ChainUnavailable */
export async function latestLifetime({ rpc }: Pick<ChainClient, 'rpc'>): Promise<Lifetime> {
  const { value } = await rpc.read((endpoint, abortSignal) =>
    endpoint.getLatestBlockhash({ commitment: 'confirmed' }).send({ abortSignal }),
  )
  return value
}

export function wireText(wire: Uint8Array): Base64EncodedWireTransaction {
  return getBase64Decoder().decode(wire) as Base64EncodedWireTransaction
}
