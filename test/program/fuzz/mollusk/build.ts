/** Builds and runs the second executor, `main.rs`: a program of this folder with Mollusk, for developers alone. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'

const TARGET = join(import.meta.dir, '../../../../dist/second_executor')
const BINARY = join(TARGET, 'release/second-executor')

/** Downloads the crates that `Cargo.lock` pins, where they are not here yet. */
export function buildSecond(): void {
  const args = ['cargo', 'build', '--release', '--locked', '--target-dir', TARGET]
  const { exitCode } = Bun.spawnSync(args, { cwd: import.meta.dir, stdout: 'inherit', stderr: 'inherit' })
  if (exitCode !== 0) throw new Error('cargo did not build the second executor')
}

/** Undefined when it is built from the present source, else the reason why it cannot run. */
export function secondMissing(): string | undefined {
  if (Bun.which('cargo') === null) return 'cargo is not installed'
  if (!existsSync(BINARY)) return 'it is not built (TACIT_SECOND_RUNS=1 builds it)'
  const args = ['cargo', 'build', '--release', '--locked', '--offline', '--target-dir', TARGET]
  const { exitCode, stderr } = Bun.spawnSync(args, { cwd: import.meta.dir, stderr: 'pipe' })
  return exitCode === 0 ? undefined : `cargo: ${stderr.toString()}`
}

export function runSecond(records: Uint8Array): { compared: number; landed: number; differences: string[] } {
  const { exitCode, stdout, stderr } = Bun.spawnSync([BINARY], { stdin: records, stderr: 'pipe' })
  if (exitCode !== 0) throw new Error(stderr.toString())
  const lines = stdout.toString().trimEnd().split('\n')
  const [, compared, landed] = /^compared (\d+), landed (\d+)$/.exec(lines.pop()!)!
  return { compared: Number(compared), landed: Number(landed), differences: lines }
}
