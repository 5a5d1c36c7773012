/** The tables of program/README.md are what the tested program costs. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { attestedCosts, attestedRow } from './attested_costs'
import { instructionUnits } from './instruction_units'
import { rowOf, settlementCosts } from './settlement_costs'

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
}, 120_000)

test('costs of an attested epoch: one transaction on a registered platform, within a v1 transaction and a limit of units', () => {
  const costs = attestedCosts()
  expect(costs.map(attestedRow)).toEqual(published('What an attested epoch costs'))
  expect(Math.max(...costs.map(({ bytes }) => bytes))).toBeLessThanOrEqual(4_096)
  for (const { units } of costs) expect(units).toBeLessThan(250_000n)
}, 120_000)

test('costs of what settles, full and alone; an order of a full batch stays within its budget', async () => {
  const costs = await settlementCosts()
  expect(costs.map(rowOf)).toEqual(published('What a settled order costs'))
  const [full] = costs
  expect(full).toMatchObject({ count: 28, lamports: 11_000 })
  expect(full!.lamports / full!.count).toBeLessThanOrEqual(395)
  expect(full!.units / full!.count).toBeLessThanOrEqual(3_700)
  expect(Math.max(...costs.map(({ bytes }) => bytes))).toBeLessThanOrEqual(4_096)
}, 120_000)
