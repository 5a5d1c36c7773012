/** Builds the wheel of `clients/python` and installs it with its packages into an empty environment. */

import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run as runProgram } from '../said'

export const PYTHON_CLIENT = join(import.meta.dir, '../../../clients/python')
/** Names a missing part of the environment: Python 3.11 with venv, or a package index and its cache. */
export type InstalledClient = { python: string } | { skipped: string }

type Ran = { code: number; output: string }
async function run(...command: string[]): Promise<Ran> {
  try {
    const { code, out, error } = await runProgram(command)
    return { code, output: `${out}${error}` }
  } catch (error) {
    return { code: -1, output: String(error) }
  }
}
async function must(...command: string[]): Promise<void> {
  const { code, output } = await run(...command)
  if (code !== 0) throw new Error(`${command.join(' ')}:\n${output.slice(-2_000)}`)
}

/**
 * Installed once for all test files of a run. A package that cannot be fetched is a reason to skip; a wheel that cannot be
 * built or installed is an error.
 */
export async function installClient(): Promise<InstalledClient> {
  const folder = join(tmpdir(), 'python-client')
  const python = join(folder, 'venv/bin/python')
  const done = join(folder, 'done')
  if (existsSync(done)) return { python }
  mkdirSync(folder, { recursive: true })
  const version = await run('python3', '-c', 'import sys; assert sys.version_info >= (3, 11)')
  if (version.code !== 0) return skipped('there is no python3 of version 3.11 or newer')
  if ((await run('python3', '-m', 'venv', join(folder, 'venv'))).code !== 0)
    return skipped('python3 makes no virtual environment with pip')
  const pip = [python, '-m', 'pip', '--disable-pip-version-check', '--quiet']
  const wheels = join(folder, 'wheels')
  const project = await Bun.file(join(PYTHON_CLIENT, 'pyproject.toml')).text()
  const pinned = [...project.matchAll(/"([a-z_]+==[0-9.]+)"/g)].map(([, name]) => name!)
  if ((await run(...pip, 'download', '--dest', wheels, ...pinned)).code !== 0)
    return skipped('pip reaches neither an index nor a cache with the packages of the Python client')
  const local = ['--no-index', '--find-links', wheels]
  await must(...pip, 'wheel', '--no-deps', ...local, '--wheel-dir', join(folder, 'built'), PYTHON_CLIENT)
  const [wheel] = [...new Bun.Glob('*.whl').scanSync(join(folder, 'built'))]
  await must(...pip, 'install', ...local, join(folder, 'built', wheel!))
  writeFileSync(done, '')
  return { python }
}

function skipped(reason: string): InstalledClient {
  console.log(`skipped: ${reason}`)
  return { skipped: reason }
}
