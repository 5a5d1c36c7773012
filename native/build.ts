/**
 * Builds `poseidon.so` from the Rust source beside it: `bun native/build.ts`. Needs the pinned
 * rustc for x86-64 Linux and nothing else: no crate, no other linker.
 */
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { constantsSource, type Parameters } from './constants'

const HERE = import.meta.dir

/** The version the committed library was built with; another may give other bytes. */
const RUSTC_VERSION = 'rustc 1.95.0'
const TARGET = 'x86_64-unknown-linux-gnu'
const RUSTC_FLAGS = [
  '--edition=2021',
  '--crate-name=poseidon',
  '--crate-type=cdylib',
  `--target=${TARGET}`,
  '-Copt-level=3',
  '-Cpanic=abort',
  '-Ccodegen-units=1',
  '-Cstrip=symbols',
  '-Clinker-flavor=ld.lld',
  '-Clink-arg=-nostdlib',
  '-Dwarnings',
]
/** Arities the protocol hashes. */
const ARITIES = [1, 2, 3, 4, 5]

function run(command: string[], cwd = HERE): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd, stdout: 'pipe', stderr: 'pipe' })
  if (exitCode !== 0) throw new Error(`${command[0]} failed:\n${stderr.toString()}`)
  return stdout.toString().trim()
}

/** The linker that comes with rustc, so the bytes do not depend on the machine's. */
const linkerPath = (): string =>
  join(run(['rustc', '--print', 'sysroot']), 'lib/rustlib', TARGET, 'bin/rust-lld')

/** Undefined when the exact toolchain is installed, else the reason why a rebuild proves nothing. */
export function toolchainMissing(): string | undefined {
  try {
    if (!run(['rustc', '--version']).startsWith(RUSTC_VERSION)) return `rustc is not ${RUSTC_VERSION}`
  } catch {
    return 'rustc is not installed'
  }
  return existsSync(linkerPath()) ? undefined : `rustc has no linker for ${TARGET}`
}

/** Circom's parameters as the pure implementation's package carries them: base64 of big-endian integers. */
function circomParameters(arity: number): Parameters {
  const require = createRequire(import.meta.url)
  const folder = dirname(require.resolve('poseidon-lite'))
  const { C, M } = require(join(folder, 'constants', `${arity}.js`)).default as { C: string[]; M: string[][] }
  const integer = (text: string) => BigInt(`0x${Buffer.from(text, 'base64').toString('hex')}`)
  return { C: C.map(integer), M: M.map((row) => row.map(integer)) }
}

/** Compiles the library; the bytes depend on the source and the toolchain only. */
export function buildLibrary(): Uint8Array {
  const folder = mkdtempSync(join(tmpdir(), 'poseidon-build-'))
  try {
    cpSync(join(HERE, 'src'), folder, { recursive: true })
    writeFileSync(join(folder, 'constants.rs'), constantsSource(ARITIES.map(circomParameters)))
    run(['rustc', ...RUSTC_FLAGS, `-Clinker=${linkerPath()}`, '-o', 'poseidon.so', 'lib.rs'], folder)
    return new Uint8Array(readFileSync(join(folder, 'poseidon.so')))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const sha256Hex = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

if (import.meta.main) {
  const missing = toolchainMissing()
  if (missing !== undefined) throw new Error(missing)
  const library = buildLibrary()
  writeFileSync(join(HERE, 'poseidon.so'), library)
  writeFileSync(join(HERE, 'poseidon.so.sha256'), `${sha256Hex(library)}  poseidon.so\n`)
  console.log(`poseidon.so ${library.length} bytes, sha256 ${sha256Hex(library)}`)
}
