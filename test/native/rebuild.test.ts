/** The committed libraries and the committed program equal the build of their source, byte for byte. */

import { expect, test } from 'bun:test'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  buildLibrary,
  hashesSource,
  LIBRARIES,
  toolchainMissing as libraryToolMissing,
} from '../../native/build'
import { buildProgram, FORWARDER, RUSTC, sha256Hex, toolchainMissing } from '../../program/build'
import { VAULT_SO } from '../kit/vault/vault_chain'
import { FORWARDER_SO } from '../program/forwarder'

const PROGRAM = join(import.meta.dir, '../../program')
const cargo = Bun.which('cargo')
const missing = toolchainMissing()
if (missing !== undefined) console.log(`program/vault.so is not rebuilt here: ${missing}`)

test('a rebuild is not skipped for the version of a compiler that is the pinned one', () => {
  const [, pinned] = /^rustc is not (rustc [\d.]+)$/.exec(libraryToolMissing() ?? '') ?? []
  const version = Bun.which('rustc') === null ? '' : Bun.spawnSync(['rustc', '--version']).stdout.toString()
  if (pinned !== undefined) expect(version).not.toStartWith(pinned)
})

test('the committed hash is that of the committed program', () => {
  const recorded = readFileSync(join(PROGRAM, 'vault.so.sha256'), 'utf8')
  expect(recorded).toBe(`${sha256Hex(VAULT_SO)}  vault.so\n`)
})

test.skipIf(missing !== undefined)(
  'the sources build the committed programs',
  () => {
    expect(sha256Hex(buildProgram().elf)).toBe(sha256Hex(VAULT_SO))
    expect(sha256Hex(buildProgram(`${FORWARDER}.rs`).elf)).toBe(sha256Hex(FORWARDER_SO))
  },
  { timeout: 300_000 },
)

test.skipIf(missing !== undefined || cargo === null)(
  'cargo takes the same sources in the usual layout, alone in a folder and without network',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'vault-cargo-'))
    try {
      for (const name of ['Cargo.toml', 'Cargo.lock', 'src'])
        cpSync(join(PROGRAM, name), join(folder, name), { recursive: true })
      expect(readFileSync(join(folder, 'Cargo.toml'), 'utf8')).not.toMatch(/\bpath\b/)
      const args = ['check', '--offline', '--locked', '--release', '--target', 'bpfel-unknown-none']
      const env = { ...process.env, RUSTC, RUSTFLAGS: '-Dwarnings' }
      const { exitCode, stderr } = Bun.spawnSync([cargo!, ...args], { cwd: folder, env, stderr: 'pipe' })
      expect([exitCode, exitCode === 0 ? '' : stderr.toString()]).toEqual([0, ''])
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
  { timeout: 300_000 },
)

test('the binary holds one security.txt with every field that its readers demand', () => {
  const parts = VAULT_SO.toString('latin1').split('=======BEGIN SECURITY.TXT V1=======\0')
  expect(parts).toHaveLength(2)
  const [text, rest] = parts[1]!.split('=======END SECURITY.TXT V1=======\0')
  expect(rest).toBeDefined()
  const words = text!.split('\0').slice(0, -1)
  expect(words.length % 2).toBe(0)
  const fields = Object.fromEntries(words.flatMap((name, at) => (at % 2 ? [] : [[name, words[at + 1]]])))
  for (const name of ['name', 'project_url', 'contacts', 'policy']) expect(fields[name]).toBeTruthy()
  expect(fields['contacts']).toMatch(/^(email|link|discord|telegram|twitter|other):./)
})

const FOLDER = join(import.meta.dir, '../../native')
const tool_missing = libraryToolMissing()
if (tool_missing !== undefined) console.log(`the libraries are not rebuilt here: ${tool_missing}`)

const committed = (name: string) => new Uint8Array(readFileSync(join(FOLDER, name)))

/** Output of the builder in a process with `PATH`. */
function printed(code: string, PATH = process.env['PATH']): string {
  const script = `import { toolchainMissing } from './build.ts'\n${code}`
  const { stdout } = Bun.spawnSync([process.execPath, '-e', script], {
    cwd: FOLDER,
    env: { ...process.env, PATH },
  })
  return stdout.toString().trim()
}

test('the builder builds when it is started, not when it is imported', () => {
  expect(printed('console.log(typeof toolchainMissing)')).toBe('function')
})

test('a compiler that is installed is found', () => {
  expect(tool_missing === 'rustc is not installed').toBe(Bun.which('rustc') === null)
})

test.skipIf(tool_missing !== undefined)('without a cc nothing is rebuilt, and that is the reason', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-tools-'))
  try {
    for (const name of ['rustc', 'cargo']) symlinkSync(Bun.which(name)!, join(folder, name))
    expect(printed('console.log(toolchainMissing())', folder)).toStartWith('no cc ')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the libraries have the recorded hashes', () => {
  const recorded = readFileSync(join(FOLDER, 'library_hashes.ts'), 'utf8')
  expect(recorded).toBe(hashesSource(committed))
})

test.skipIf(tool_missing !== undefined).each(LIBRARIES)(
  '%s equals the build of its source',
  (name) => {
    expect(buildLibrary(name)).toEqual(committed(name))
  },
  120_000,
)
