/**
 * The fuzzer's transactions in two executors: litesvm and Mollusk (`main.rs`, a program of this folder for developers alone) end
 * each of them with the same error, or with the same accounts and compute units. TACIT_SECOND_RUNS builds the second one
 * (cargo) and makes a long run, TACIT_SECOND_SEED repeats one.
 */
import { expect, test } from 'bun:test'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { loadNativePoseidon } from '../../../../native/load_poseidon'
import { buildProgram, toolchainMissing } from '../../../../program/build'
import { equalBytes } from '../../../../protocol/bytes'
import { installPoseidon } from '../../../../protocol/notes/poseidon'
import { SYSTEM_PROGRAM, UPGRADEABLE_LOADER } from '../../../../protocol/vault/addresses'
import { INSTRUCTIONS_SYSVAR, SECP256R1_PRECOMPILE } from '../../../../protocol/vault/epochs'
import { VAULT_SO } from '../../../kit/vault/vault_chain'
import { campaign, WORLD_RUNS } from '../campaign'
import type { LoadedAccount, Witness } from '../raw_chain'
import { RENT_SYSVAR } from '../world'

const TARGET = join(import.meta.dir, '../../../../dist/second_executor')
const BINARY = join(TARGET, 'release/second-executor')

/** Downloads the crates that `Cargo.lock` pins, where they are not here yet. */
function buildSecond(): void {
  const args = ['cargo', 'build', '--release', '--locked', '--target-dir', TARGET]
  const { exitCode } = Bun.spawnSync(args, { cwd: import.meta.dir, stdout: 'inherit', stderr: 'inherit' })
  if (exitCode !== 0) throw new Error('cargo did not build the second executor')
}

/** Undefined when it is built from the present source, else the reason why it cannot run. */
function secondMissing(): string | undefined {
  if (Bun.which('cargo') === null) return 'cargo is not installed'
  if (!existsSync(BINARY)) return 'it is not built (TACIT_SECOND_RUNS=1 builds it)'
  const args = ['cargo', 'build', '--release', '--locked', '--offline', '--target-dir', TARGET]
  const { exitCode, stderr } = Bun.spawnSync(args, { cwd: import.meta.dir, stderr: 'pipe' })
  return exitCode === 0 ? undefined : `cargo: ${stderr.toString()}`
}

function runSecond(records: Uint8Array): { compared: number; landed: number; differences: string[] } {
  const { exitCode, stdout, stderr } = Bun.spawnSync([BINARY], { stdin: records, stderr: 'pipe' })
  if (exitCode !== 0) throw new Error(stderr.toString())
  const lines = stdout.toString().trimEnd().split('\n')
  const [, compared, landed] = /^compared (\d+), landed (\d+)$/.exec(lines.pop()!)!
  return { compared: Number(compared), landed: Number(landed), differences: lines }
}

const PROGRAM = 1
const TRANSACTION = 2

/** Accounts that the runtime makes read-only in every transaction: one of its rules around the instructions. */
const RESERVED = [SYSTEM_PROGRAM, UPGRADEABLE_LOADER, SECP256R1_PRECOMPILE, INSTRUCTIONS_SYSVAR, RENT_SYSVAR]

class Recorder implements Witness {
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

const RUNS = Number(process.env['TACIT_SECOND_RUNS'] ?? 0)
const SEED = Number(process.env['TACIT_SECOND_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const SHORT_RUNS = 300
const PROGRAM_FOLDER = join(import.meta.dir, '../../../../program')
/** `program/src/error.rs`. */
const BELOW_MIN_DEPOSIT = 7033
const LONG_MS = 86_400_000

const native = loadNativePoseidon()
if (native) installPoseidon(native)

if (RUNS > 0) buildSecond()
const missing = secondMissing()
if (missing !== undefined) console.log(`the second executor does not run here: ${missing}`)

/** One world whose transactions one executor runs with `first`, and the other with `second`. */
function oneWorld(seed: number, runs: number, first: Uint8Array, second = first) {
  const recorder = new Recorder(first, second)
  const tally = campaign({ seed, elf: first, runs, isOver: () => false, aim: /./, witness: recorder })
  expect(tally.finding).toBeUndefined()
  return { ...runSecond(recorder.bytes()), recorded: recorder.recorded, outside: recorder.outside }
}

test.skipIf(missing !== undefined)(
  'both executors agree on every transaction',
  () => {
    const total = { compared: 0, landed: 0, outside: 0 }
    for (let world = 0; total.compared < Math.max(RUNS, 1); world++) {
      const seed = (SEED + world) >>> 0
      const { compared, landed, recorded, outside, differences } = oneWorld(
        seed,
        RUNS > 0 ? WORLD_RUNS : SHORT_RUNS,
        VAULT_SO,
      )
      expect({ seed, differences, compared }).toEqual({ seed, differences: [], compared: recorded })
      total.compared += compared
      total.landed += landed
      total.outside += outside
    }
    const { compared, landed, outside } = total
    console.log(
      `second executor: seed ${SEED}, ${compared} transactions equal, ${landed} of them landed; ${outside} not comparable`,
    )
    expect(landed).toBeGreaterThan(10)
  },
  { timeout: RUNS > 0 ? LONG_MS : 120_000 },
)

test.skipIf(missing !== undefined || toolchainMissing() !== undefined)(
  'a program with one other comparison differs',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'vault-planted-'))
    try {
      cpSync(join(PROGRAM_FOLDER, 'src'), folder, { recursive: true })
      const path = join(folder, 'instructions/deposit.rs')
      const source = readFileSync(path, 'utf8')
      const altered = source.replace('amount >= record.min_deposit()', 'amount <= record.min_deposit()')
      expect(altered).not.toBe(source)
      writeFileSync(path, altered)
      const { elf } = buildProgram(relative(PROGRAM_FOLDER, join(folder, 'lib.rs')))
      const { differences } = oneWorld(1, SHORT_RUNS, VAULT_SO, elf)
      expect(differences.join('\n')).toContain(`Custom(${BELOW_MIN_DEPOSIT})`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
  { timeout: 300_000 },
)
