/** A chain in process that takes transactions as bytes and checks no signatures, for many of them per second. */
import { Account, Clock, type FailedTransactionMetadata, LiteSvm } from 'litesvm/dist/internal'
import { decodeBase58 } from '../../../protocol/base58'
import { vaultError } from '../../../protocol/vault/errors'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { encodeTransaction, type Named } from './message'

export type RawAccount = { owner: Uint8Array; data: Uint8Array; lamports: bigint }

/**
 * `error`: a vault error's name, `custom N`, or the runtime's own word. `failedIn` names the innermost program that
 * failed, in base58; undefined when none ran.
 */
type Sent = { ok: true; units: bigint } | { ok: false; error: string; failedIn: () => string | undefined }

export class RawChain {
  readonly #svm = new LiteSvm()
  readonly #blockhash: Uint8Array

  constructor() {
    this.#svm.setSigverify(false)
    this.#svm.setTransactionHistory(0n)
    this.#blockhash = decodeBase58(this.#svm.latestBlockhash(), 32)!
  }

  addProgram(id: Uint8Array, elf: Uint8Array): void {
    this.#svm.addProgram(id, elf)
  }

  setTime({ slot, unix_s }: { slot: number; unix_s: number }): void {
    this.#svm.setClock(new Clock(BigInt(slot), 0n, 0n, 0n, BigInt(unix_s)))
  }

  rentOf(size: number): bigint {
    return this.#svm.minimumBalanceForRentExemption(BigInt(size))
  }

  account(address: Uint8Array): RawAccount | undefined {
    const account = this.#svm.getAccount(address)
    if (account === null) return undefined
    return { owner: account.owner(), data: account.data(), lamports: account.lamports() }
  }

  setAccount(address: Uint8Array, { owner, data, lamports }: RawAccount): void {
    this.#svm.setAccount(address, new Account(lamports, data, owner, false, 0n))
  }

  /** Undefined when no transaction can carry the instructions. */
  send(instructions: readonly VaultInstruction[], named: readonly Named[]): Sent | undefined {
    const bytes = encodeTransaction(instructions, named, this.#blockhash)
    if (bytes === undefined) return undefined
    const result = this.#svm.sendVersionedTransaction(bytes)
    if ('err' in result) return { ok: false, error: errorOf(result), failedIn: () => failedIn(result) }
    return { ok: true, units: result.computeUnitsConsumed() }
  }
}

function errorOf(failure: FailedTransactionMetadata): string {
  const text = failure.toString()
  const code = /Custom\((\d+)\)/.exec(text)?.[1]
  if (code !== undefined) return vaultError(Number(code))?.name ?? `custom ${code}`
  return /err: InstructionError\(\d+, (\w+)/.exec(text)?.[1] ?? /err: (\w+)/.exec(text)?.[1] ?? text
}

const failedIn = (failure: FailedTransactionMetadata): string | undefined =>
  failure
    .meta()
    .logs()
    .map((line) => /^Program (\w+) failed/.exec(line)?.[1])
    .find((program) => program !== undefined)
