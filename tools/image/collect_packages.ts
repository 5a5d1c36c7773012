/** The production packages of the lockfile, installed afresh for Linux on x64, without what never runs. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Glob } from 'bun'
import type { TarEntry } from './tar'

/** Peers wanted by types only, and links to commands. */
const LEFT_OUT = /^(\.bin|typescript|@typescript)\//
/** Read by compilers and people, not by the runtime. */
const UNREAD = /\.(d\.[cm]?ts|map|md|markdown)$/i

/** The lockfile fixes every version and its hash; no script of a package runs. @throws Error when the installation fails. */
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
