/** A chain in process that takes transactions as bytes and checks no signatures, for many of them per second. */
import { Account, Clock, type FailedTransactionMetadata, LiteSvm } from 'litesvm/dist/internal'
import { decodeBase58 } from '../../../protocol/base58'
import { SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import { vaultError } from '../../../protocol/vault/errors'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { encodeTransaction, type Named } from './message'

export type RawAccount = { owner: Uint8Array; data: Uint8Array; lamports: bigint }

/**
 * `error`: a vault error's name, `custom N`, or the runtime's own word. `failedIn` names the innermost program that
 * failed, in base58; undefined when none ran.
 */
type Sent = { ok: true; units: bigint } | { ok: false; error: string; failedIn: () => string | undefined }

export type LoadedAccount = RawAccount & { address: Uint8Array; executable: boolean }
/** Learns of each program and of each transaction with an outcome. */
export type Witness = {
  program(id: Uint8Array, loader: Uint8Array, elf: Uint8Array): void
  transaction(done: {
    clock: { slot: number; unix_s: number }
    instructions: readonly VaultInstruction[]
    before: readonly LoadedAccount[]
    /** The runtime's own words; empty when it landed. */
    error: string
    units: bigint
    after: readonly LoadedAccount[]
  }): void
}

/** Program data: tag u32, slot u64, authority option u8 and authority (32), ELF. */
const ELF_AT = 45

export class RawChain {
  readonly #svm = new LiteSvm()
  readonly #blockhash: Uint8Array
  #clock = { slot: 0, unix_s: 0 }

  constructor(readonly witness?: Witness) {
    for (const id of [TOKEN_PROGRAM, TOKEN_2022_PROGRAM]) this.#showProgram(id)
    this.#svm.setSigverify(false)
    this.#svm.setTransactionHistory(0n)
    this.#blockhash = decodeBase58(this.#svm.latestBlockhash(), 32)!
  }

  addProgram(id: Uint8Array, elf: Uint8Array): void {
    this.#svm.addProgram(id, elf)
    this.#showProgram(id)
  }

  #showProgram(id: Uint8Array): void {
    const { owner, data } = this.account(id)!
    const elf = this.account(data.slice(4, 36))!.data.subarray(ELF_AT)
    this.witness?.program(id, owner, elf)
  }

  setTime({ slot, unix_s }: { slot: number; unix_s: number }): void {
    this.#clock = { slot, unix_s }
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

  #loaded(named: readonly Named[]): LoadedAccount[] {
    return named.map(({ address }) => {
      const account = this.#svm.getAccount(address)
      const absent = { owner: SYSTEM_PROGRAM, data: new Uint8Array(), lamports: 0n }
      return { ...(this.account(address) ?? absent), address, executable: account?.executable() ?? false }
    })
  }

  /** Undefined when no transaction can carry the instructions. */
  send(instructions: readonly VaultInstruction[], named: readonly Named[]): Sent | undefined {
    const bytes = encodeTransaction(instructions, named, this.#blockhash)
    if (bytes === undefined) return undefined
    const before = this.witness && this.#loaded(named)
    const result = this.#svm.sendVersionedTransaction(bytes)
    if (before !== undefined) {
      const [error, done] = 'err' in result ? [wordsOf(result), result.meta()] : ['', result]
      const after = error === '' ? this.#loaded(named) : before
      const units = done.computeUnitsConsumed()
      this.witness!.transaction({ clock: this.#clock, instructions, before, error, units, after })
    }
    if ('err' in result) return { ok: false, error: errorOf(result), failedIn: () => failedIn(result) }
    return { ok: true, units: result.computeUnitsConsumed() }
  }
}

const wordsOf = (failure: FailedTransactionMetadata): string =>
  /err: (.*?), meta: /s.exec(failure.toString())?.[1] ?? failure.toString()

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
