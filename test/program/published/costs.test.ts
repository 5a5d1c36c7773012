/** The tables of program/README.md are what the tested program costs. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { instructionUnits } from './instruction_units'
import { settlementCosts } from './settlement_costs'

const README = readFileSync(join(import.meta.dir, '../../../program/README.md'), 'utf8')

/** The rows below a heading's first table head. */
const published = (heading: string): string[] => {
  const [, section] = README.split(`\n## ${heading}\n`)
  return section!
    .split('\n## ')[0]!
    .match(/^\|.*\|$/gm)!
    .slice(2)
}

test('compute units and bytes of every instruction', () => {
  expect(instructionUnits()).toEqual(published('Compute units and bytes'))
}, 30_000)

test('costs of what settles, full and alone, in both versions', async () => {
  expect(await settlementCosts()).toEqual(published('What a settled order costs'))
}, 30_000)
