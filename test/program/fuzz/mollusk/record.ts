/** Writes what one executor made of transactions as records that `main.rs` compares with Mollusk. */
import { equalBytes } from '../../../../protocol/bytes'
import { SYSTEM_PROGRAM, UPGRADEABLE_LOADER } from '../../../../protocol/vault/addresses'
import { INSTRUCTIONS_SYSVAR, SECP256R1_PRECOMPILE } from '../../../../protocol/vault/platforms'
import type { LoadedAccount, Witness } from '../raw_chain'
import { RENT_SYSVAR } from '../world'

const PROGRAM = 1
const TRANSACTION = 2

/** Accounts that the runtime makes read-only in every transaction: one of its rules around the instructions. */
const RESERVED = [SYSTEM_PROGRAM, UPGRADEABLE_LOADER, SECP256R1_PRECOMPILE, INSTRUCTIONS_SYSVAR, RENT_SYSVAR]

export class Recorder implements Witness {
  readonly #parts: Uint8Array[] = []
  recorded = 0
  /**
   * Not comparable: rejected by the rules of a transaction around its instructions, which Mollusk does not have, or with a
   * precompile, to which Mollusk 0.15 shows its own data alone.
   */
  outside = 0

  /** Where a program is `first`, the other executor is given `second`. */
  constructor(
    readonly first: Uint8Array,
    readonly second: Uint8Array,
  ) {}

  bytes(): Uint8Array {
    return Buffer.concat(this.#parts)
  }

  program(id: Uint8Array, loader: Uint8Array, elf: Uint8Array): void {
    this.#parts.push(Uint8Array.of(PROGRAM), id, loader)
    this.#sized(equalBytes(elf, this.first) ? this.second : elf)
  }

  transaction({
    clock,
    instructions,
    before,
    error,
    units,
    after,
  }: Parameters<Witness['transaction']>[0]): void {
    const precompiled = instructions.some(({ program }) => equalBytes(program, SECP256R1_PRECOMPILE))
    if (precompiled || (error !== '' && !error.startsWith('InstructionError('))) {
      this.outside += 1
      return
    }
    this.recorded += 1
    this.#parts.push(Uint8Array.of(TRANSACTION))
    this.#number(clock.slot)
    this.#number(clock.unix_s)
    this.#accounts(before)
    this.#parts.push(Uint8Array.of(instructions.length))
    for (const { program, accounts, data } of instructions) {
      this.#parts.push(program.slice(), Uint8Array.of(accounts.length))
      for (const { address, signer, writable } of accounts) {
        const written = writable && !RESERVED.some((one) => equalBytes(address, one))
        this.#parts.push(address.slice(), Uint8Array.of(Number(signer) + 2 * Number(written)))
      }
      this.#sized(data)
    }
    this.#sized(Buffer.from(error))
    this.#number(units)
    // The first pays the fee.
    this.#accounts(after.slice(1))
  }

  #accounts(accounts: readonly LoadedAccount[]): void {
    this.#parts.push(Uint8Array.of(accounts.length))
    for (const { address, owner, lamports, executable, data } of accounts) {
      this.#parts.push(address.slice(), owner)
      this.#number(lamports)
      this.#parts.push(Uint8Array.of(Number(executable)))
      this.#sized(data)
    }
  }

  #number(value: number | bigint): void {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64LE(BigInt(value))
    this.#parts.push(bytes)
  }

  /** Behind its length; a copy, because the fuzzer changes some in place. */
  #sized(bytes: Uint8Array): void {
    const length = Buffer.alloc(4)
    length.writeUInt32LE(bytes.length)
    this.#parts.push(length, bytes.slice())
  }
}
