/**
 * Builds the libraries from the Rust source beside this file: `bun native/build.ts`. Needs the pinned rustc and cargo for
 * x86-64 Linux; Poseidon has no crate, those of Ed25519 come from crates.io as `ed25519/Cargo.lock` pins them.
 */
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { constantsSource, type Parameters } from './constants'

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

/** @param extensions flags of rustc; the one backend that they select is compiled in, without a choice at run time */
function buildEd25519(folder: string, ...extensions: string[]): string {
  cpSync(ED25519, folder, { recursive: true })
  const crates = join(process.env.CARGO_HOME ?? join(homedir(), '.cargo'), 'registry/src')
  const flags = [...extensions, ...LINK_FLAGS, `--remap-path-prefix=${crates}=crates`, '-Dwarnings']
  run(['cargo', 'build', '--release', '--locked', '--target', TARGET, '--target-dir', 'target'], folder, {
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
