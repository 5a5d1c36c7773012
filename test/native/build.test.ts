/** The committed libraries are what their source builds. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildLibrary, hashLine, LIBRARIES, toolchainMissing } from '../../native/build'

const FOLDER = join(import.meta.dir, '../../native')
const toolchain_missing = toolchainMissing()
if (toolchain_missing !== undefined) console.log(`the libraries are not rebuilt here: ${toolchain_missing}`)

const committedLine = (name: string) => hashLine(name, readFileSync(join(FOLDER, name)))

test('the libraries have the recorded hashes', () => {
  const recorded = readFileSync(join(FOLDER, 'sha256sum.txt'), 'utf8')
  expect(recorded).toBe(LIBRARIES.map(committedLine).join(''))
})

test.skipIf(toolchain_missing !== undefined).each(LIBRARIES)(
  '%s is what its source builds',
  (name) => {
    expect(hashLine(name, buildLibrary(name))).toBe(committedLine(name))
  },
  120_000,
)
