/** The committed libraries are what their source builds. */
import { expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildLibrary, hashesSource, LIBRARIES, toolchainMissing } from '../../native/build'

const FOLDER = join(import.meta.dir, '../../native')
const toolchain_missing = toolchainMissing()
if (toolchain_missing !== undefined) console.log(`the libraries are not rebuilt here: ${toolchain_missing}`)

const committed = (name: string) => new Uint8Array(readFileSync(join(FOLDER, name)))

/** What the builder prints in a process with `PATH`. */
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
  expect(toolchain_missing === 'rustc is not installed').toBe(Bun.which('rustc') === null)
})

test.skipIf(toolchain_missing !== undefined)(
  'without a cc nothing is rebuilt, and that is the reason',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-tools-'))
    try {
      for (const name of ['rustc', 'cargo']) symlinkSync(Bun.which(name)!, join(folder, name))
      expect(printed('console.log(toolchainMissing())', folder)).toStartWith('no cc ')
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
)

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
