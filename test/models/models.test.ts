/**
 * The models hold in each reachable state, and each planted fault is found. Spin explores them; TACIT_LANDINGS=4 takes
 * gigabytes and minutes. Skipped without `spin` and a C compiler.
 */
import { expect, test } from 'bun:test'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const compiler = Bun.which('gcc') ?? Bun.which('cc')
const missing = Bun.which('spin') === null || compiler === null
if (missing) console.log('skipped: the models need spin and a C compiler (Debian: spin, gcc, libc6-dev)')
const { TACIT_LANDINGS } = process.env
const landings = TACIT_LANDINGS === undefined ? [] : [`-DLANDINGS=${TACIT_LANDINGS}`]

function run(cwd: string, ...command: string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync(command, { cwd })
  if (exitCode !== 0) throw new Error(`${command.join(' ')}: ${stdout}${stderr}`)
  return String(stdout)
}

/** Explores every state, breadth first. */
function explore(model: string, ...options: string[]): { states: number; errors: number } {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-model-'))
  try {
    copyFileSync(join(import.meta.dir, `${model}.pml`), join(folder, 'model.pml'))
    run(folder, 'spin', '-a', ...options, 'model.pml')
    run(folder, compiler!, '-O2', '-w', '-DSAFETY', '-DBFS', '-DCOLLAPSE', '-o', 'pan', 'pan.c')
    // A state in which nothing more happens is no error.
    const said = run(folder, './pan', '-E')
    const found = /errors: (\d+)\s+(\d+) states, stored/.exec(said)
    if (found === null || said.includes('max search depth')) throw new Error(said)
    return { errors: Number(found[1]), states: Number(found[2]) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

test.skipIf(missing).each([
  ['lease', [...landings]],
  ['lease', ['-DCLUSTER', ...landings]],
  ['commit', []],
  ['exits', []],
] as const)(
  'the law of %s %p holds in every state',
  (model, options) => {
    const { states, errors } = explore(model, ...options)
    console.log(`${model} ${options.join(' ')}: ${states} states`)
    expect(errors).toBe(0)
    expect(states).toBeGreaterThan(500)
  },
  3_600_000,
)

test.skipIf(missing).each([
  ['lease', '-DWAIT=2'],
  ['lease', '-DNO_SLOT'],
  ['commit', '-DNO_LIMIT'],
  ['commit', '-DANY_EPOCH'],
  ['commit', '-DAPART'],
  ['exits', '-DNO_CHALLENGER'],
  ['exits', '-DANY_ROOT'],
  ['exits', '-DANY_EPOCH'],
  ['exits', '-DSETTLE_FROZEN'],
  ['exits', '-DREACH'],
] as const)(
  'the law of %s finds %s',
  (model, fault) => {
    expect(explore(model, fault).errors).toBe(1)
  },
  600_000,
)
