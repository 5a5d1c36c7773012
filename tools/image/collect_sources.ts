/** The files of this repository that run in the image, exactly as committed. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TarEntry } from './tar'

/** Without compose.yaml: it names the image, so the image cannot hold it. */
const PATHS = [
  'protocol',
  'engine',
  'enclave',
  'native',
  'routes',
  'program/vault.so',
  // The laptop's demo account is made by the operator's own code.
  'tools/account',
  'tools/image/check_health.ts',
  'package.json',
  'bun.lock',
  'bunfig.toml',
  'LICENSE',
]

/** @throws Error when a file differs from its commit: nobody could build that image again. */
export function collectSources(root: string): TarEntry[] {
  const changed = git(root, 'status', '--porcelain', '--untracked-files=all', '--', ...PATHS)
  if (changed !== '') throw new Error(`not committed, so not reproducible:\n${changed}`)
  const files = git(root, 'ls-files', '-z', '--', ...PATHS)
    .split('\0')
    .filter((file) => file !== '')
  return files.map((path) => ({
    path: `app/${path}`,
    mode: 0o644,
    owner: 0,
    content: readFileSync(join(root, path)),
  }))
}

export function commitOf(root: string): string {
  return git(root, 'rev-parse', 'HEAD').trim()
}

function git(root: string, ...parameters: string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync(['git', ...parameters], { cwd: root })
  if (exitCode !== 0) throw new Error(`git ${parameters[0]}: ${stderr.toString().trim()}`)
  return stdout.toString()
}
