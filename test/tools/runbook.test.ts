/** The operator's guide has exactly one runbook entry for every word that a reason can begin with. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REASON_WORDS } from '../../engine/operator'
import { reasonText, reasonWord } from '../../engine/sequencer/reasons'

const ROOT = join(import.meta.dir, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')

/** Rows of the tables of one section, each as its cells. */
function rowsOf(heading: string): string[][] {
  const section = GUIDE.split(/^## /m).find((text) => text.startsWith(heading)) ?? ''
  const lines = section.split('\n').filter((line) => line.startsWith('| `'))
  return lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

test('each word has its entry with something to do, and each entry its word', () => {
  const rows = rowsOf('15. Runbook')
  expect(rows.map(([word]) => word!.replaceAll('`', '')).sort()).toEqual([...REASON_WORDS].sort())
  for (const [word, ready, happened, act] of rows) {
    expect([word, ready]).toEqual([word, expect.stringMatching(/^(yes|no)$/)])
    for (const text of [happened, act]) expect([word, text!.length > 8]).toEqual([word, true])
  }
})

test('a reason begins with its word, before its details', () => {
  const text = reasonText('self_check', 'the machine is under debug')
  expect(reasonWord(text)).toBe('self_check')
  expect(text).toEndWith(': the machine is under debug')
  for (const word of REASON_WORDS) expect(word).toMatch(/^[a-z]+(_[a-z]+)*$/)
})
