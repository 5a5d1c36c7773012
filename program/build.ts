/**
 * Builds `program/vault.so` from source with Debian packages alone: `rustc-web` with
 * `libstd-rust-web-dev-bpf`, and `llvm-22`. `bun program/build.ts` writes the program, its SHA-256, and the program its
 * tests call it through.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type LinkedProgram, link } from './link'

const HERE = import.meta.dir
/** Debian's compiler by full path: another toolchain earlier on PATH has no BPF target. */
export const RUSTC = '/usr/bin/rustc'
const LLC = '/usr/bin/llc-22'

/** Versions the committed binary was built with; others may give other bytes. */
const TOOLCHAIN = { rustc: 'rustc 1.96.0', llc: 'LLVM version 22.1' } as const

// -mcpu=v2: v3 would use 32-bit arithmetic, where SBPF sign-extends and upstream BPF does not.
const RUSTC_FLAGS = [
  '--edition=2021',
  '--crate-name=vault',
  '--crate-type=cdylib',
  '--target=bpfel-unknown-none',
  '-Ctarget-cpu=v2',
  '-Copt-level=3',
  '-Cpanic=abort',
  '-Clto=fat',
  '-Ccodegen-units=1',
  '--emit=obj',
  '-Dwarnings',
]
const LLC_FLAGS = ['-march=bpfel', '-mcpu=v2', '-bpf-stack-size=4096', '-filetype=obj']

function run(command: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command, { cwd: HERE, stdout: 'pipe', stderr: 'pipe' })
  if (exitCode !== 0) throw new Error(`${command[0]} failed:\n${stderr.toString()}`)
  return stdout.toString()
}

/** Undefined when the exact toolchain is installed, else the reason why a rebuild proves nothing. */
export function toolchainMissing(): string | undefined {
  for (const [tool, path] of [
    ['rustc', RUSTC],
    ['llc', LLC],
  ] as const) {
    try {
      const version = run([path, '--version'])
      if (!version.includes(TOOLCHAIN[tool])) return `${path} is not ${TOOLCHAIN[tool]}`
    } catch {
      return `${path} is not installed`
    }
  }
  const target = join(run([RUSTC, '--print', 'sysroot']).trim(), 'lib/rustlib/bpfel-unknown-none')
  return existsSync(target) ? undefined : 'the BPF standard library is not installed'
}

/** The program of the tests that calls the vault from inside a transaction. */
export const FORWARDER = '../test/program/forwarder'

/** Compiles and links a program; the bytes depend on the source and the toolchain only. */
export function buildProgram(source = 'src/lib.rs'): LinkedProgram {
  const folder = mkdtempSync(join(tmpdir(), 'vault-build-'))
  try {
    const [bitcode, object] = [join(folder, 'vault.bc'), join(folder, 'vault.o')]
    run([RUSTC, ...RUSTC_FLAGS, '-o', bitcode, source])
    run([LLC, ...LLC_FLAGS, '-o', object, bitcode])
    return link(readFileSync(object))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const sha256Hex = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

if (import.meta.main) {
  const missing = toolchainMissing()
  if (missing !== undefined) throw new Error(missing)
  const { elf } = buildProgram()
  writeFileSync(join(HERE, 'vault.so'), elf)
  writeFileSync(join(HERE, 'vault.so.sha256'), `${sha256Hex(elf)}  vault.so\n`)
  writeFileSync(join(HERE, `${FORWARDER}.so`), buildProgram(`${FORWARDER}.rs`).elf)
  console.log(`vault.so ${elf.length} bytes, sha256 ${sha256Hex(elf)}`)
}
