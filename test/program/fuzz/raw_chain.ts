/** A chain in process that takes transactions as bytes and checks no signatures, and the writer of those bytes. */

import { Account, Clock, type FailedTransactionMetadata, LiteSvm } from 'litesvm/dist/internal'
import { decodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import { vaultError } from '../../../protocol/vault/errors'
import type { VaultInstruction } from '../../../protocol/vault/instruction'

const VERSION_1 = 0x81
/** Compute unit limit and loaded account bytes. */
const CONFIG_MASK = 0b1100
const UNIT_LIMIT = 1_400_000
const LOADED_BYTES_MAX = 4_000_000
const TRANSACTION_BYTES_MAX = 4_096
const ACCOUNTS_MAX = 64
const SIGNERS_MAX = 12

/** An account of a whole transaction: its flags are the union of those of its instructions. */
export type Named = { address: Uint8Array; signer: boolean; writable: boolean }

/** Every account a transaction names, signers first, writable before read-only; the fee payer leads. */
export function namedAccounts(instructions: readonly VaultInstruction[], fee_payer: Uint8Array): Named[] {
  const named = new Map<string, Named>()
  const name = (address: Uint8Array, signer: boolean, writable: boolean): void => {
    const key = toHex(address)
    const known = named.get(key) ?? { address, signer: false, writable: false }
    named.set(key, {
      address,
      signer: known.signer || signer,
      writable: known.writable || writable,
    })
  }
  name(fee_payer, true, true)
  for (const { accounts, program } of instructions) {
    for (const { address, signer, writable } of accounts) name(address, signer, writable)
    name(program, false, false)
  }
  const rank = ({ signer, writable }: Named): number => (signer ? 0 : 2) + (writable ? 0 : 1)
  const [payer, ...rest] = named.values()
  return [payer!, ...rest.sort((a, b) => rank(a) - rank(b))]
}

/** Undefined when no transaction can carry the instructions. */
function encodeTransaction(
  instructions: readonly VaultInstruction[],
  named: readonly Named[],
  blockhash: Uint8Array,
): Uint8Array | undefined {
  const signers = named.filter(({ signer }) => signer).length
  const readonly_signers = named.filter(({ signer, writable }) => signer && !writable).length
  const readonly_others = named.filter(({ signer, writable }) => !signer && !writable).length
  const payload = instructions.reduce((sum, one) => sum + 4 + one.accounts.length + one.data.length, 0)
  const size = 50 + 32 * named.length + payload + 64 * signers
  if (size > TRANSACTION_BYTES_MAX || named.length > ACCOUNTS_MAX || signers > SIGNERS_MAX) return undefined
  const places = new Map(named.map(({ address }, place) => [toHex(address), place]))
  const bytes = new Uint8Array(size)
  const view = new DataView(bytes.buffer)
  bytes.set([VERSION_1, signers, readonly_signers, readonly_others])
  view.setUint32(4, CONFIG_MASK, true)
  bytes.set(blockhash, 8)
  bytes.set([instructions.length, named.length], 40)
  let at = 42
  for (const { address } of named) {
    bytes.set(address, at)
    at += 32
  }
  view.setUint32(at, UNIT_LIMIT, true)
  view.setUint32(at + 4, LOADED_BYTES_MAX, true)
  at += 8
  for (const { program, accounts, data } of instructions) {
    bytes.set([places.get(toHex(program))!, accounts.length], at)
    view.setUint16(at + 2, data.length, true)
    at += 4
  }
  for (const { accounts, data } of instructions) {
    for (const { address } of accounts) bytes[at++] = places.get(toHex(address))!
    bytes.set(data, at)
    at += data.length
  }
  return bytes
}

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
