/** Reads the status of sent transactions, classifies their failures and decodes their instructions. */

import { getCompiledTransactionMessageDecoder, getTransactionDecoder, type Signature } from '@solana/kit'
import { encodeBase58 } from '../../../protocol/base58'
import { type VaultErrorName, vaultError } from '../../../protocol/vault/errors'
import type { ChainClient } from './chain_client'
import { type Answer, ChainUnavailable, type Reader, wholeOf } from './rpc_pool'

export type TransactionFailure =
  /** Caused by the state of the cluster, a fee, a budget or a size: a later transaction may succeed. */
  | { kind: 'transient'; name: string }
  /** The program ran and rejected it. `name` is undefined for an error that is not the vault's. */
  | { kind: 'program'; name: VaultErrorName | undefined; text: string }

/** The program rejected a transaction that this venue considered valid. */
export class ChainProgramError extends Error {
  constructor(readonly failure: TransactionFailure & { kind: 'program' }) {
    super(`the chain refused the transaction: ${failure.text}`)
  }
}

/** `error` as RPC JSON: a name, or `{InstructionError: [index, name | {Custom: code}]}` (agave `TransactionError`). */
export function failureOf(error: unknown): TransactionFailure {
  const { InstructionError: instruction } = Object(error)
  if (!Array.isArray(instruction)) return { kind: 'transient', name: nameOf(error) }
  const { Custom: code } = Object(instruction[1])
  // The runtime's own errors are budgets and sizes; a program gives a number.
  if (typeof code !== 'bigint' && typeof code !== 'number')
    return { kind: 'transient', name: nameOf(instruction[1]) }
  const known = vaultError(Number(code))
  return { kind: 'program', name: known?.name, text: known?.name ?? `custom error ${code}` }
}

/** The fee payer cannot pay the fee: its balance is too low, or it was never funded. */
export function isPayerShort(failure: TransactionFailure): boolean {
  return failure.kind === 'transient' && ['InsufficientFundsForFee', 'AccountNotFound'].includes(failure.name)
}

function nameOf(error: unknown): string {
  if (typeof error === 'string') return error
  return typeof error === 'object' && error !== null ? (Object.keys(error)[0] ?? 'unknown') : 'unknown'
}

type CarriedInstruction = { program: string; data: Uint8Array }

/** The instructions of a signed transaction of any version. @throws SolanaError for bytes that are no transaction */
export function transactionInstructions(transaction: Uint8Array): CarriedInstruction[] {
  const { messageBytes } = getTransactionDecoder().decode(transaction)
  const message = getCompiledTransactionMessageDecoder().decode(messageBytes)
  const programAt = (index: number): string => message.staticAccounts[index]!
  if (message.version === 1) {
    return message.instructionPayloads.map(({ instructionData }, at) => ({
      program: programAt(message.instructionHeaders[at]!.programAccountIndex),
      data: new Uint8Array(instructionData),
    }))
  }
  return message.instructions.map(({ programAddressIndex, data }) => ({
    program: programAt(programAddressIndex),
    data: new Uint8Array(data ?? []),
  }))
}

type TransactionStatus = {
  slot: number
  level: 'processed' | 'confirmed' | 'finalized'
  /** TransactionError as RPC JSON, null for success. */
  error: unknown
}

/** In the order of `signatures`; undefined for a signature that the chain does not know. @throws ChainUnavailable */
export async function transactionStatuses(
  { rpc }: { rpc: Reader },
  signatures: readonly Uint8Array[],
): Promise<(TransactionStatus | undefined)[]> {
  const texts = signatures.map((one) => encodeBase58(one) as Signature)
  const { value } = await rpc.read((endpoint, abortSignal) =>
    endpoint.getSignatureStatuses(texts, { searchTransactionHistory: true }).send({ abortSignal }),
  )
  return value.map((status) => {
    if (!status) return undefined
    const { slot, confirmationStatus: level, err: error } = status
    // Absent, it is neither a success nor a failure.
    if (error === undefined) throw new ChainUnavailable('an RPC provider shows no outcome')
    return { slot: wholeOf(slot), level: level ?? 'processed', error }
  })
}

/** The status of a transaction by a quorum of providers; `final` once the same quorum shows it at finalized. */
export type AgreedStatus =
  | { kind: 'undecided' }
  /** In no confirmed block. */
  | { kind: 'unknown' }
  | { kind: 'executed'; final: boolean; slot: number }
  | { kind: 'failed'; final: boolean; failure: TransactionFailure }

/** In the order of `signatures`. @throws ChainUnavailable */
export async function agreedStatuses(
  { rpc }: Pick<ChainClient, 'rpc'>,
  signatures: readonly Uint8Array[],
): Promise<AgreedStatus[]> {
  const answers = await rpc.all((reader) => transactionStatuses({ rpc: reader }, signatures))
  return signatures.map((_, index) => {
    const votes = answers.map(
      ({ at, value }): Answer<TransactionStatus | undefined> => ({ at, value: value[index] }),
    )
    const agreed = rpc.majority(votes, outcomeOf)
    if (!agreed) return { kind: 'undecided' }
    const status = agreed[0]!.value
    if (outcomeOf(status) === 'unknown') return { kind: 'unknown' }
    const final = agreed.filter(({ value }) => value?.level === 'finalized').length >= rpc.quorum
    if (status!.error === null) return { kind: 'executed', final, slot: status!.slot }
    return { kind: 'failed', final, failure: failureOf(status!.error) }
  })
}

function outcomeOf(status: TransactionStatus | undefined): string {
  if (!status || status.level === 'processed') return 'unknown'
  if (status.error === null) return `executed in ${status.slot}`
  const failure = failureOf(status.error)
  return failure.kind === 'program' ? `rejected: ${failure.text}` : `failed: ${failure.name}`
}
