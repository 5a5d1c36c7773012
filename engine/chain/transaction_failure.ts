/** What a TransactionError means for the sender: try again, or a verdict of the vault program. */
import { type VaultErrorName, vaultError } from '../../protocol/vault/errors'

export type TransactionFailure =
  /** The cluster's circumstances: a later transaction may succeed. */
  | { kind: 'transient'; name: string }
  /** The program ran and refused. `name` is undefined for an error that is none of the vault's. */
  | { kind: 'program'; name: VaultErrorName | undefined; text: string }

/** A program refused a transaction that this venue believed to be right. */
export class ChainProgramError extends Error {
  constructor(readonly failure: TransactionFailure & { kind: 'program' }) {
    super(`the chain refused the transaction: ${failure.text}`)
  }
}

/** `error` as RPC JSON: a name, or `{InstructionError: [index, name | {Custom: code}]}` (agave `TransactionError`). */
export function failureOf(error: unknown): TransactionFailure {
  const instruction = (error as { InstructionError?: readonly [unknown, unknown] }).InstructionError
  if (!instruction) return { kind: 'transient', name: nameOf(error) }
  const code = (instruction[1] as { Custom?: bigint | number }).Custom
  if (code === undefined) return { kind: 'program', name: undefined, text: nameOf(instruction[1]) }
  const known = vaultError(Number(code))
  return { kind: 'program', name: known?.name, text: known?.name ?? `custom error ${code}` }
}

/** The settlement signer cannot pay: it has too little, or was never funded. */
export function isPayerShort(failure: TransactionFailure): boolean {
  return failure.kind === 'transient' && ['InsufficientFundsForFee', 'AccountNotFound'].includes(failure.name)
}

function nameOf(error: unknown): string {
  if (typeof error === 'string') return error
  return typeof error === 'object' && error !== null ? (Object.keys(error)[0] ?? 'unknown') : 'unknown'
}
