/**
 * Builds the libraries from the Rust source in this folder: `bun native/build.ts`. Needs the pinned rustc and cargo for x86-64
 * Linux; Poseidon has no crate, those of Ed25519 come from crates.io as `ed25519/Cargo.lock` pins them.
 */

import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { FIELD_MODULUS as P } from '../protocol/notes/poseidon'

type Vector = bigint[]
type Matrix = bigint[][]
/** Circom's parameters of one width: round constants in order, and the mixing matrix. */
type Parameters = { C: Vector; M: Matrix }

const FULL_ROUNDS = 8
const LIMBS = 4
const LIMB_BITS = 64n
const R = 1n << (LIMB_BITS * BigInt(LIMBS))

const residue = (value: bigint): bigint => ((value % P) + P) % P
const sum = (values: Vector): bigint => residue(values.reduce((a, b) => a + b, 0n))
const applied = (matrix: Matrix, vector: Vector): Vector =>
  matrix.map((row) => sum(row.map((value, at) => value * vector[at]!)))
const product = (a: Matrix, b: Matrix): Matrix =>
  a.map((row) => b[0]!.map((_, column) => sum(row.map((value, at) => value * b[at]![column]!))))

function inverseOf(value: bigint): bigint {
  let [a, b, x, y] = [residue(value), P, 1n, 0n]
  while (b !== 0n) [a, b, x, y] = [b, a % b, y, x - (a / b) * y]
  if (a !== 1n) throw new RangeError('zero has no inverse')
  return residue(x)
}

/** Gauss-Jordan over the field. */
function inverseMatrix(matrix: Matrix): Matrix {
  const size = matrix.length
  const rows = matrix.map((row, at) => [...row, ...row.map((_, column) => (at === column ? 1n : 0n))])
  for (let column = 0; column < size; column++) {
    const pivot = rows.findIndex((row, at) => at >= column && row[column] !== 0n)
    if (pivot === -1) throw new RangeError('the matrix is singular')
    ;[rows[column], rows[pivot]] = [rows[pivot]!, rows[column]!]
    const scale = inverseOf(rows[column]![column]!)
    rows[column] = rows[column]!.map((value) => residue(value * scale))
    for (let at = 0; at < size; at++) {
      if (at === column) continue
      const factor = rows[at]![column]!
      rows[at] = rows[at]!.map((value, index) => residue(value - factor * rows[column]![index]!))
    }
  }
  return rows.map((row) => row.slice(size))
}

/**
 * Splits `matrix` into `sparse * block`, block = [[1, 0], [0, rest]]. A block leaves the first element alone, so it commutes
 * with a partial round's power and moves into the round before (Poseidon, eprint 2019/458, appendix B).
 */
function factored(matrix: Matrix): { row: Vector; column: Vector; block: Matrix } {
  const width = matrix.length
  const rest = inverseMatrix(matrix.slice(1).map((row) => row.slice(1)))
  const above = matrix[0]!.slice(1)
  const row = rest.map((_, column) => sum(above.map((value, at) => value * rest[at]![column]!)))
  const block = matrix.map((values, at) =>
    at === 0 ? values.map((_, column) => (column === 0 ? 1n : 0n)) : [0n, ...values.slice(1)],
  )
  return { row: [matrix[0]![0]!, ...row], column: matrix.slice(1, width).map((values) => values[0]!), block }
}

/** The fields of `Constants` in `src/permutation.rs`, before conversion to Montgomery form. */
function sparseForm({ C, M }: Parameters) {
  const width = M.length
  const rounds = C.length / width
  const partial = rounds - FULL_ROUNDS
  const constants = Array.from({ length: rounds }, (_, round) => C.slice(round * width, (round + 1) * width))
  // A partial round's power touches the first element only: the other constants pass through to the next round.
  for (let round = FULL_ROUNDS / 2; round < FULL_ROUNDS / 2 + partial; round++) {
    const passed = applied(M, [0n, ...constants[round]!.slice(1)])
    constants[round + 1] = constants[round + 1]!.map((value, at) => sum([value, passed[at]!]))
  }
  const [rows, columns]: [Matrix, Matrix] = [[], []]
  let matrix = M
  for (let round = 0; round < partial; round++) {
    const { row, column, block } = factored(matrix)
    rows.unshift(row)
    columns.unshift(column)
    matrix = product(block, M)
  }
  const half = FULL_ROUNDS / 2
  return {
    full: [...constants.slice(0, half), ...constants.slice(half + partial)],
    matrix: M,
    entry: matrix,
    first: constants.slice(half, half + partial).map((values) => values[0]!),
    row: rows,
    column: columns,
  }
}

function element(value: bigint): string {
  const limb = (at: number) => (value >> (LIMB_BITS * BigInt(at))) & ((1n << LIMB_BITS) - 1n)
  return `[${Array.from({ length: LIMBS }, (_, at) => limb(at)).join(',')}]`
}
const montgomery = (value: bigint): string => element(residue(value * R))
const list = (values: Vector): string => `[${values.map(montgomery).join(',')}]`
const table = (values: Matrix): string => `[${values.map(list).join(',\n')}]`

/** The module `constants` of the crate. */
function constantsSource(parameters: readonly Parameters[]): string {
  const widths = parameters.map((given) => {
    const form = sparseForm(given)
    const width = given.M.length
    return [
      `pub static WIDTH_${width}: Constants<${width}, ${width - 1}, ${form.first.length}> = Constants {`,
      `full: ${table(form.full)},`,
      `matrix: ${table(form.matrix)},`,
      `entry: ${table(form.entry)},`,
      `first: ${list(form.first)},`,
      `row: ${table(form.row)},`,
      `column: ${table(form.column)},`,
      '};',
    ].join('\n')
  })
  return [
    'use crate::field::Element;',
    'use crate::permutation::Constants;',
    `pub static R_SQUARED: Element = ${element(residue(R * R))};`,
    ...widths,
  ].join('\n')
}

const HERE = import.meta.dir
const ED25519 = join(HERE, 'ed25519')

/** The version the committed libraries were built with; another may give other bytes. */
const RUSTC_VERSION = 'rustc 1.95.0'
const TARGET = 'x86_64-unknown-linux-gnu'
/** The linker that comes with rustc, and no library of the machine: the bytes do not depend on either. */
const LINK_FLAGS = ['-Clinker=rust-lld', '-Clinker-flavor=ld.lld', '-Clink-arg=-nostdlib']
const POSEIDON_FLAGS = [
  '--edition=2021',
  '--crate-name=poseidon',
  '--crate-type=cdylib',
  `--target=${TARGET}`,
  '-Copt-level=3',
  '-Cpanic=abort',
  '-Ccodegen-units=1',
  '-Cstrip=symbols',
  '-Dwarnings',
]
/** Arities the protocol hashes. */
const ARITIES = [1, 2, 3, 4, 5]

function run(command: string[], cwd = HERE, env: Record<string, string> = {}): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, {
    cwd,
    env: { ...process.env, ...env },
    stdout: 'pipe',
    stderr: 'pipe',
  })
  if (exitCode !== 0) throw new Error(`${command[0]} failed:\n${stderr.toString()}`)
  return stdout.toString().trim()
}

/** Undefined when the exact toolchain and the crates are installed, else the reason why a rebuild proves nothing. */
export function toolchainMissing(): string | undefined {
  try {
    if (!run(['rustc', '--version']).startsWith(RUSTC_VERSION)) return `rustc is not ${RUSTC_VERSION}`
  } catch {
    return 'rustc is not installed'
  }
  const linker = join(run(['rustc', '--print', 'sysroot']), 'lib/rustlib', TARGET, 'bin/rust-lld')
  if (!existsSync(linker)) return `rustc has no linker for ${TARGET}`
  if (Bun.which('cc') === null) return 'no cc links the build scripts of the crates'
  try {
    run(['cargo', 'fetch', '--locked', '--offline', '--target', TARGET], ED25519)
  } catch {
    return 'the crates of Ed25519 are not downloaded (`cargo fetch` in native/ed25519)'
  }
}

/** Circom's parameters as the pure implementation's package carries them: base64 of big-endian integers. */
function circomParameters(arity: number): Parameters {
  const require = createRequire(import.meta.url)
  const folder = dirname(require.resolve('poseidon-lite'))
  const { C, M } = require(join(folder, 'constants', `${arity}.js`)).default as { C: string[]; M: string[][] }
  const integer = (text: string) => BigInt(`0x${Buffer.from(text, 'base64').toString('hex')}`)
  return { C: C.map(integer), M: M.map((row) => row.map(integer)) }
}

function buildPoseidon(folder: string): string {
  cpSync(join(HERE, 'src'), folder, { recursive: true })
  writeFileSync(join(folder, 'constants.rs'), constantsSource(ARITIES.map(circomParameters)))
  run(['rustc', ...POSEIDON_FLAGS, ...LINK_FLAGS, '-o', 'poseidon.so', 'lib.rs'], folder)
  return 'poseidon.so'
}

/** The registry's sources of a crate that `ed25519/Cargo.lock` pins. */
const DALEK = 'curve25519-dalek-5.0.0'

/**
 * dalek keeps its vectorised points to itself, and makes new tables for each multiplication: `lib.rs` keeps those of each key.
 * Only the visibility of items is changed.
 */
function openDalek(crates: string, folder: string): void {
  const index = readdirSync(crates).find((name) => existsSync(join(crates, name, DALEK)))
  cpSync(join(crates, index!, DALEK), folder, { recursive: true })
  for (const name of readdirSync(join(folder, 'src'), { recursive: true, encoding: 'utf8' })) {
    const path = join(folder, 'src', name)
    if (!name.endsWith('.rs')) continue
    writeFileSync(path, readFileSync(path, 'utf8').replaceAll('pub(crate)', 'pub'))
  }
}

/** @param extensions flags of rustc; the one backend that they select is compiled in, without a choice at run time */
function buildEd25519(folder: string, ...extensions: string[]): string {
  cpSync(ED25519, folder, { recursive: true })
  const crates = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'registry/src')
  // Compares each crate with its checksum in the lockfile.
  run(['cargo', 'fetch', '--locked', '--target', TARGET], folder)
  openDalek(crates, join(folder, 'dalek'))
  const flags = [...extensions, ...LINK_FLAGS, `--remap-path-prefix=${crates}=crates`]
  const patched = ['--config', 'patch.crates-io.curve25519-dalek.path="dalek"', '--offline']
  run(['cargo', 'build', '--release', ...patched, '--target', TARGET, '--target-dir', 'target'], folder, {
    CARGO_ENCODED_RUSTFLAGS: flags.join('\x1f'),
  })
  return `target/${TARGET}/release/libed25519.so`
}

/** Each builds in an empty folder and names the library in it. */
const BUILDS: Record<string, (folder: string) => string> = {
  'ed25519_avx2.so': (folder) => buildEd25519(folder, '-Ctarget-cpu=x86-64-v3'),
  'ed25519_avx512.so': (folder) =>
    buildEd25519(folder, '-Ctarget-cpu=x86-64-v4', '-Ctarget-feature=+avx512ifma'),
  'poseidon.so': buildPoseidon,
}
export const LIBRARIES = Object.keys(BUILDS)

/** Compiles the library; the bytes depend on the source, the crates and the toolchain only. */
export function buildLibrary(name: string): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-native-'))
  try {
    return new Uint8Array(readFileSync(join(folder, BUILDS[name]!(folder))))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The source of `library_hashes.ts`. */
export function hashesSource(libraryOf: (name: string) => Uint8Array): string {
  const lines = LIBRARIES.map((name) => {
    const hash = createHash('sha256').update(libraryOf(name)).digest('hex')
    return `  '${name}': '${hash}',\n`
  })
  return [
    '/** Lists the SHA-256 of each library that may be loaded; `bun native/build.ts` writes this file. */\n\n',
    'export const LIBRARY_HASHES: Readonly<Record<string, string>> = {\n',
    ...lines,
    '}\n',
  ].join('')
}

if (import.meta.main) {
  const source = hashesSource((name) => {
    const library = buildLibrary(name)
    writeFileSync(join(HERE, name), library)
    return library
  })
  writeFileSync(join(HERE, 'library_hashes.ts'), source)
  process.stdout.write(source)
}
