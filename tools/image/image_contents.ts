/** Collects the contents of the image: sources as committed, production packages, and pinned files by hash. */

import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Glob } from 'bun'
import type { TarEntry } from './tar'

/** The Bun version of package.json's `engines`, as published in npm's `@oven/bun-linux-x64` of that version. */
export const BUN_SHA256 = '10702245766b225e70bbf6235fd6b47214fd94b4760d00ffaed8ab0df57ac235'
export const BUN_PACKAGE = '@oven/bun-linux-x64'

/** The user the process runs as, and the owner of its data folder. */
export const VENUE_USER = 10_001
/** Every time stamp in the image, seconds (reproducible-builds.org, SOURCE_DATE_EPOCH). */
export const SOURCE_DATE_EPOCH = 0

/** Peers used by types only, and links to commands. */
const LEFT_OUT = /^(\.bin|typescript|@typescript)\//
/** Not read at run time. */
const UNREAD = /\.(d\.[cm]?ts|map|md|markdown)$/i

/** Sources in the image. Without compose.yaml: it names the image's digest, so the image cannot contain it. */
const SOURCES = [
  'protocol',
  'engine',
  'enclave',
  'native',
  'routes',
  'server',
  'package.json',
  'bun.lock',
  'bunfig.toml',
  'LICENSE',
]

/**
 * The production packages, installed from the lockfile for Linux on x64: it fixes every version and hash, and no script
 * of a package runs. @throws Error when the installation fails
 */
export function collectPackages(root: string): TarEntry[] {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-packages-'))
  try {
    for (const file of ['package.json', 'bun.lock', 'bunfig.toml'])
      cpSync(join(root, file), join(folder, file))
    install(folder)
    const modules = join(folder, 'node_modules')
    const files = [...new Glob('**/*').scanSync({ cwd: modules, dot: true })]
    return files
      .filter((file) => !LEFT_OUT.test(file) && !UNREAD.test(file))
      .map((file) => ({
        path: `app/node_modules/${file}`,
        mode: 0o644,
        owner: 0,
        content: readFileSync(join(modules, file)),
      }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function install(folder: string): void {
  const flags = ['--frozen-lockfile', '--production', '--ignore-scripts', '--os', 'linux', '--cpu', 'x64']
  const { stderr, exitCode } = Bun.spawnSync([process.execPath, 'install', ...flags], { cwd: folder })
  if (exitCode !== 0) throw new Error(`bun install: ${stderr.toString().trim()}`)
}

/** @throws Error when a file differs from its commit, because the image could not be reproduced */
export function collectSources(root: string): TarEntry[] {
  const changed = git(root, 'status', '--porcelain', '--untracked-files=all', '--', ...SOURCES)
  if (changed !== '') throw new Error(`not committed, so not reproducible:\n${changed}`)
  const files = git(root, 'ls-files', '-z', '--', ...SOURCES)
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
