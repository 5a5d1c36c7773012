/** The committed program is what its source builds, byte for byte, wherever the pinned toolchain is installed. */

import { expect, test } from 'bun:test'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildProgram, FORWARDER, RUSTC, sha256Hex, toolchainMissing } from '../../../program/build'
import { VAULT_SO } from '../../kit/vault/vault_chain'
import { FORWARDER_SO } from '../forwarder'

const PROGRAM = join(import.meta.dir, '../../../program')
const cargo = Bun.which('cargo')
const missing = toolchainMissing()
if (missing !== undefined) console.log(`program/vault.so is not rebuilt here: ${missing}`)

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
