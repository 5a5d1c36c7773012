/** Signs a vault instruction: simulates it, then sets compute limit and priority fee. */

import { type Base64EncodedWireTransaction, getBase64Decoder } from '@solana/kit'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import {
  buildFitting,
  buildTransaction,
  COMPUTE_UNITS_MAX,
  type Lifetime,
  MICRO_LAMPORTS,
  type SignedTransaction,
  toInstruction,
} from './build_transaction'
import type { ChainClient } from './chain_client'
import { failureOf, type TransactionFailure } from './transaction_status'

type Signing = { signed: SignedTransaction } | { failure: TransactionFailure }

/** Added to the simulated use: state may grow until the transaction lands. */
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
  const limits = { compute_units: COMPUTE_UNITS_MAX, priority_fee_lamports: 0n }
  const draft = { payer: signer, instructions, lifetime, ...limits }
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

/** Percentile of the priority fees recently paid on the vault's accounts, in micro-lamports per unit; 0 when unavailable. */
export async function priorityPrice({ rpc, address, fees }: ChainClient): Promise<bigint> {
  try {
    const paid = await rpc.read((endpoint, abortSignal) =>
      endpoint.getRecentPrioritizationFees([address.config, address.tree]).send({ abortSignal }),
    )
    const prices = paid
      .map((slot) => BigInt(slot.prioritizationFee))
      .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
    return prices[Math.min(prices.length - 1, Math.floor((prices.length * fees.percentile) / 100))] ?? 0n
  } catch {
    // Sending at the floor fee is better than not sending.
    return 0n
  }
}

/** Lamports for `compute_units` at `price`, at least the floor, times 1.5 per earlier attempt, at most the cap. */
export function priorityFee(
  { floor_lamports, cap_lamports }: ChainClient['fees'],
  price: bigint,
  compute_units: number,
  attempt: number,
): bigint {
  const lamports = (price * BigInt(compute_units) + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS
  const fee = lamports > floor_lamports ? lamports : floor_lamports
  const raised = (fee * BigInt(Math.round(100 * 1.5 ** Math.min(attempt, 20)))) / 100n
  return raised > cap_lamports ? cap_lamports : raised
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
