/** A transaction that did not do what it was sent for, with the vault's own name for the reason where it has one. */
import {
  isSolanaError,
  SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM,
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
} from '@solana/kit'
import { type VaultErrorName, vaultError } from '../../protocol/vault/errors'
import { VAULT_ADVICE } from './vault_advice'

/** It landed with an error, was refused before it was sent, or its blockhash expired before it landed. */
export class TransactionFailed extends Error {
  constructor(
    what: string,
    /** The vault program's refusal; undefined for every other reason. */
    readonly refusal?: VaultErrorName,
  ) {
    super(what)
    this.name = 'TransactionFailed'
  }
}

/** From `err` of a landed transaction: `{InstructionError: [index, {Custom: code}]}` (agave `TransactionError`). */
export function landedFailure(err: unknown): TransactionFailed {
  const instruction = (err as { InstructionError?: readonly [unknown, unknown] }).InstructionError
  const code = (instruction?.[1] as { Custom?: bigint | number } | undefined)?.Custom
  return failure('the transaction landed with an error', code)
}

/** What the node's simulation refused; undefined when the failure is another, as a node that does not answer. */
export function preflightFailure(error: unknown): TransactionFailed | undefined {
  if (!isSolanaError(error, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE))
    return undefined
  const { cause } = error
  const custom = isSolanaError(cause, SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM)
    ? cause.context.code
    : undefined
  const reason = cause instanceof Error ? cause.message : 'no reason given'
  return failure(`the transaction was refused before it was sent: ${reason}`, custom)
}

function failure(what: string, code: bigint | number | undefined): TransactionFailed {
  const known = code === undefined ? undefined : vaultError(Number(code))
  if (known === undefined) return new TransactionFailed(what)
  const advice = VAULT_ADVICE[known.name]
  const sentence = `the vault refuses: ${known.name}. ${known.meaning}`
  return new TransactionFailed(advice === undefined ? sentence : `${sentence} ${advice}`, known.name)
}
