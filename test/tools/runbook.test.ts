/** The operator's guide has exactly one runbook entry for every word that a reason can begin with. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { REASON_WORDS } from '../../engine/methods/operator'
import { Metrics } from '../../engine/reads/metrics'
import { reasonText, reasonWord } from '../../engine/sequencer/reasons'
import { LOG_EVENTS } from '../../server/edge/log'
import { expiryMetrics, openMeters, processMetrics } from '../../server/edge/meters'
import { TestSite } from '../kit/venue/open_test_venue'
import { Trader } from '../kit/venue/trader'

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

test('the guide lists every metric of the code with its type and meaning, and no other', async () => {
  const site = new TestSite()
  try {
    const { venue } = await site.open()
    const [commands, meters] = [new Metrics(), openMeters()]
    meters.refused('token_invalid')
    meters.socketClosed(1000)
    const edge = [
      ...meters.read(),
      ...expiryMetrics({ certificate_ms: 0, collateral_ms: 0 }),
      ...processMetrics(),
    ]
    const rows = [...venue.metrics(), ...commands.read({}), ...edge]
    const nameOf = ({ name, labels }: (typeof rows)[number]) =>
      labels === undefined ? name : `${name}{${Object.keys(labels).join()}}`
    const shown = rows.map((row) => [nameOf(row), row.type, row.help].join(' | '))
    const listed = rowsOf('16. Metrics').map(([name, ...more]) =>
      [name!.replaceAll('`', ''), ...more].join(' | '),
    )
    expect(listed.sort()).toEqual([...new Set(shown)].sort())
  } finally {
    await site.remove()
  }
})

test('the guide lists every log event with its meaning, and no other', () => {
  const listed = rowsOf('17. Log events').map(([event, meaning]) => [event!.replaceAll('`', ''), meaning!])
  expect(Object.fromEntries(listed)).toEqual(LOG_EVENTS)
})

test('an order takes as much of the journal as the guide says', async () => {
  const said = Number(/(\d+) bytes of journal/.exec(GUIDE)![1])
  const site = new TestSite()
  try {
    const open = await site.open()
    const trader = await Trader.provisioned(open, 'desk')
    const notes = Array.from({ length: 50 }, () => trader.deposit('quote', 900_000_000n))
    await open.chain.finalizeLeaves()
    const { journal } = open.engine.loaded
    const { seq } = journal.head()
    await Promise.all(notes.map((note) => open.venue.place('desk', trader.place(note))))
    let bytes = 0
    for await (const { body } of journal.read(seq + 1)) bytes += body.length
    expect(Math.abs(bytes / notes.length - said)).toBeLessThan(said / 10)
  } finally {
    await site.remove()
  }
})
