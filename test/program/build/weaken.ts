/**
 * Builds the vault program once for each of its checks without that check, and runs the program's tests against each
 * build: who refuses it is printed. `bun test/program/build/weaken.ts [PATTERN of sources] [PATTERN of tests]`; hours long
 * without them.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '../../..')
const FOLDERS = [
  'client',
  'engine',
  'native',
  'program',
  'protocol',
  'sandbox',
  'test',
  'tsconfig.json',
  'package.json',
]
const FUZZER = 'test/program/fuzz.test.ts'
/** Measurements, which refuse nothing, and what takes long. */
const APART = new Set([
  'fuzz.test.ts',
  'published/costs.test.ts',
  'settle/griefing.test.ts',
  'settle/units.test.ts',
  'sizes.test.ts',
  'vectors.test.ts',
  'wind_down/thousand.test.ts',
])

/** A check in the sources: its text from `at`, and what replaces it. */
type Check = { file: string; at: number; text: string; replacement: string }

/** Statements that only refuse, and refusals that a function ends with. */
const CHECKS: readonly [RegExp, string][] = [
  [/^ *(?:require\(|[\w.]*\.?require_\w+\()(?:[^;{}]|\{[^{}]*\})*?\)\?;\n/gm, '\n'],
  [/^ *require\([^;{}]*?\)\n(?= *\})/gm, 'Ok(())\n'],
]

function checksIn(file: string): Check[] {
  const source = readFileSync(join(ROOT, file), 'utf8')
  return CHECKS.flatMap(([pattern, replacement]) =>
    [...source.matchAll(pattern)].map(({ index, 0: text }) => ({ file, at: index, text, replacement })),
  )
}

function allChecks(): Check[] {
  const files = readdirSync(join(ROOT, 'program/src'), { recursive: true, encoding: 'utf8' })
  const sources = files.filter((name) => name.endsWith('.rs') && name !== 'error.rs').sort()
  return sources.flatMap((name) => checksIn(join('program/src', name)))
}

const run = (folder: string, ...command: string[]): boolean =>
  Bun.spawnSync(command, { cwd: folder, stdout: 'ignore', stderr: 'ignore' }).success

/** Who refuses the program without this check: `tests`, `fuzzer`, `none`, or `compiler` where it does not build. */
function fate(folder: string, check: Check, tests: string[]): string {
  const path = join(folder, check.file)
  const source = readFileSync(path, 'utf8')
  const { at, text, replacement } = check
  writeFileSync(path, source.slice(0, at) + replacement + source.slice(at + text.length))
  try {
    if (!run(folder, 'bun', 'program/build.ts')) return 'compiler'
    if (!run(folder, 'bun', 'test', '--bail', ...tests)) return 'tests'
    return run(folder, 'bun', 'test', FUZZER) ? 'none' : 'fuzzer'
  } finally {
    writeFileSync(path, source)
  }
}

function main(pattern: RegExp, chosen: RegExp): void {
  const folder = mkdtempSync(join(tmpdir(), 'weakened-'))
  for (const name of FOLDERS) cpSync(join(ROOT, name), join(folder, name), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const build = join(folder, 'program/build.ts')
  writeFileSync(build, readFileSync(build, 'utf8').replace("  '-Dwarnings',\n", ''))
  const all = readdirSync(join(folder, 'test/program'), { recursive: true, encoding: 'utf8' })
  const names = all.filter((name) => name.endsWith('.test.ts') && !name.startsWith('build/'))
  const tests = names
    .filter((name) => !APART.has(name) && chosen.test(name))
    .map((name) => `test/program/${name}`)
  try {
    for (const check of allChecks()) {
      if (!pattern.test(check.file)) continue
      const line = readFileSync(join(ROOT, check.file), 'utf8').slice(0, check.at).split('\n').length
      console.log(
        `${fate(folder, check, tests)} ${check.file}:${line} ${check.text.trim().replace(/\s+/g, ' ')}`,
      )
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

main(new RegExp(process.argv[2] ?? ''), new RegExp(process.argv[3] ?? ''))
