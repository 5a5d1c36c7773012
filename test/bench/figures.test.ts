/** A bench names its machine and fails when one of its figures misses the target. */
import { expect, test } from 'bun:test'
import { cpus } from 'node:os'
import { join } from 'node:path'

const FIGURES = join(import.meta.dir, '../../bench/kit/figures.ts')

function reported(figures: object[]) {
  const script = `import { report } from '${FIGURES}'; report("some", ${Bun.inspect(figures)})`
  const { exitCode, stdout } = Bun.spawnSync([process.execPath, '-e', script])
  return { exitCode, lines: stdout.toString().trimEnd().split('\n') }
}

test.each([
  ['<= 1.2', 1.2, 0],
  ['<= 1.2', 1.200001, 1],
  ['< 5', 4.9, 0],
  ['< 5', 5, 1],
  ['>= 60', 60, 0],
  ['>= 60', 59.99, 1],
  ['< 5', Number.NaN, 1],
])('a target %s with %p exits with %p', (target, value, code) => {
  const met = { figure: 'met', value: 1, unit: 'us', target: '<= 1' }
  const { exitCode, lines } = reported([met, { figure: 'one', value, unit: 'x', target }])
  expect(exitCode).toBe(code)
  expect(lines[0]).toContain(`${cpus().length} cores of ${cpus()[0]!.model}`)
  expect(lines[0]).toMatch(/ GB, Linux \S+, \w+ at \/\S*, Bun [\d.]+, load [\d.]+$/)
  expect(lines[3]!.trimEnd().endsWith(' missed')).toBe(code === 1)
})

test('figures without a target fail nothing', () => {
  expect(reported([{ figure: 'one', value: 1e9, unit: 'us' }]).exitCode).toBe(0)
})
