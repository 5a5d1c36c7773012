/** The committed libraries are what their source builds. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildLibrary, hashesSource, LIBRARIES, toolchainMissing } from '../../native/build'

const FOLDER = join(import.meta.dir, '../../native')
const toolchain_missing = toolchainMissing()
if (toolchain_missing !== undefined) console.log(`the libraries are not rebuilt here: ${toolchain_missing}`)

const committed = (name: string) => new Uint8Array(readFileSync(join(FOLDER, name)))

test('the libraries have the recorded hashes', () => {
  const recorded = readFileSync(join(FOLDER, 'library_hashes.ts'), 'utf8')
  expect(recorded).toBe(hashesSource(committed))
})

test.skipIf(toolchain_missing !== undefined).each(LIBRARIES)(
  '%s is what its source builds',
  (name) => {
    expect(buildLibrary(name)).toEqual(committed(name))
  },
  120_000,
)
