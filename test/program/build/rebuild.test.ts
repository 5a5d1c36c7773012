/** The committed program is what its source builds, byte for byte, wherever the pinned toolchain is installed. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildProgram, FORWARDER, sha256Hex, toolchainMissing } from '../../../program/build'
import { VAULT_SO } from '../../kit/vault/vault_chain'
import { FORWARDER_SO } from '../forwarder'

const missing = toolchainMissing()
if (missing !== undefined) console.log(`program/vault.so is not rebuilt here: ${missing}`)

test('the committed hash is that of the committed program', () => {
  const recorded = readFileSync(join(import.meta.dir, '../../../program/vault.so.sha256'), 'utf8')
  expect(recorded).toBe(`${sha256Hex(VAULT_SO)}  vault.so\n`)
})

test.skipIf(missing !== undefined)(
  'the sources build the committed programs',
  () => {
    expect(sha256Hex(buildProgram().elf)).toBe(sha256Hex(VAULT_SO))
    expect(sha256Hex(buildProgram(`${FORWARDER}.rs`).elf)).toBe(sha256Hex(FORWARDER_SO))
  },
  { timeout: 60_000 },
)
