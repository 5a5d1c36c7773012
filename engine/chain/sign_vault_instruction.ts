/** Turns a vault instruction into signed bytes: simulated once, compute limit with a margin, priority fee. */
import { type Base64EncodedWireTransaction, getBase64Decoder } from '@solana/kit'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  type SignedTransaction,
  type TransactionDraft,
  type TransactionVersion,
} from './build_transaction'
import type { ChainClient } from './chain_client'
import { priorityFee } from './priority_fee'
import { failureOf, type TransactionFailure } from './transaction_failure'
import { TransactionTooLarge } from './transaction_limits'
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
  const { value: lifetime } = await rpc.read((endpoint, abortSignal) =>
    endpoint.getLatestBlockhash({ commitment: 'confirmed' }).send({ abortSignal }),
  )
  const compute_units_max = { compute_units: COMPUTE_UNITS_MAX, priority_fee_lamports: 0n }
  const draft = { payer: signer, instructions, lifetime, ...compute_units_max }
  const trial = await buildTrial(draft, client.transactions)
  if ('failure' in trial) return trial
  const simulation = await rpc.read((endpoint, abortSignal) =>
    endpoint
      .simulateTransaction(wireText(trial.wire), {
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
  const priority_fee_lamports = await priorityFee(client, compute_units, attempt)
  const { version } = trial
  return { signed: await buildTransaction({ ...draft, version, compute_units, priority_fee_lamports }) }
}

type Trial = { wire: Uint8Array; version: TransactionVersion } | { failure: TransactionFailure }

/** What no packet holds, a batch packed before the operator chose v0 or a refusal's proof, goes out as v1 all the same. */
async function buildTrial(draft: TransactionDraft, wanted: TransactionVersion): Promise<Trial> {
  if (wanted === 0) {
    const small = await buildTransaction({ ...draft, version: 0 }).catch(asTooLarge)
    if (!('failure' in small)) return { wire: small.wire, version: 0 }
  }
  const built = await buildTransaction({ ...draft, version: 1 }).catch(asTooLarge)
  return 'failure' in built ? built : { wire: built.wire, version: 1 }
}

/** Nothing the cluster does makes it smaller: as final as a refusal of the program. */
function asTooLarge(error: unknown): { failure: TransactionFailure } {
  if (!(error instanceof TransactionTooLarge)) throw error
  return { failure: { kind: 'program', name: undefined, text: error.message } }
}

export function wireText(wire: Uint8Array): Base64EncodedWireTransaction {
  return getBase64Decoder().decode(wire) as Base64EncodedWireTransaction
}
