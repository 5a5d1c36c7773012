/**
 * Alert rules, dashboard and runbook name only metrics and texts of the venue, hold their cases, and miss no word of a reason.
 */

import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REASON_WORDS } from '../../engine/methods/operator'
import { Metrics } from '../../engine/reads/metrics'
import { reasonText, reasonWord } from '../../engine/sequencer/reasons'
import { LOG_EVENTS } from '../../server/edge/log'
import { expiryMetrics, openMeters, processMetrics } from '../../server/edge/meters'
import { recordsOf } from '../engine/journal/folder'
import { VenueProcess } from '../faults/kit/venue_process'
import { PROMETHEUS, Prometheus, RULES } from '../kit/server/prometheus'
import { TestSite } from '../kit/venue/open_test_venue'
import { Trader } from '../kit/venue/trader'

const ROOT = join(import.meta.dir, '../..')
const DOCS = join(ROOT, 'docs')
const DASHBOARD = readFileSync(join(DOCS, 'dashboard.json'), 'utf8')

const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-alerts-'))
let server: Prometheus | undefined
afterAll(async () => {
  await server?.remove()
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

test('rules and dashboard name only metrics and reasons of the guide, which are those of the code', () => {
  const guide = readFileSync(join(DOCS, 'operations.md'), 'utf8')
  const listed = new Set([...guide.matchAll(/^\| `((?:tacit|process)_[a-z_]+)/gm)].map(([, name]) => name!))
  const expressions = [
    ...[...RULES.matchAll(/expr: (.+)$/gm)].map(([, text]) => text!),
    ...[...DASHBOARD.matchAll(/"expr": "(.+)"/g)].map(([, text]) => text!),
  ]
  expect(expressions.length).toBeGreaterThan(20)
  const used = expressions.flatMap((text) =>
    [...text.matchAll(/(?:tacit|process)_[a-z_]+/g)].map(([name]) => name.replace(/_bucket$/, '')),
  )
  for (const name of used) expect(listed).toContain(name)
  const excepted = /reason!~"([a-z|_]+)"/.exec(RULES)![1]!.split('|')
  for (const word of excepted) expect(REASON_WORDS).toContain(word)
  expect(JSON.parse(DASHBOARD).panels.length).toBeGreaterThan(10)
})

test.skipIf(PROMETHEUS === undefined)('every rule holds its cases', () => {
  for (const args of [
    ['check', 'rules', 'alerts.yaml'],
    ['test', 'rules', 'alerts_test.yaml'],
  ]) {
    const { exitCode, stdout, stderr } = Bun.spawnSync([PROMETHEUS!.promtool, ...args], { cwd: DOCS })
    expect([exitCode, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining('SUCCESS')])
  }
  const cases = readFileSync(join(DOCS, 'alerts_test.yaml'), 'utf8')
  for (const [, name] of RULES.matchAll(/alert: (\w+)/g)) expect(cases).toContain(`alertname: ${name}`)
})

test.skipIf(PROMETHEUS === undefined)(
  'a server scrapes the venue by its token, and raises and clears an alert',
  async () => {
    const { certificate, operator_key, operator_url, url } = await venue.start()
    const tls = { ca: readFileSync(certificate, 'utf8') }
    const info = (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }
    const token = join(folder, 'scrape.token')
    const made = Bun.spawnSync([
      process.execPath,
      join(ROOT, 'tools/account/main.ts'),
      ...['scrape-token', '--operator-key', operator_key, '--venue', info.venue, '--out', token],
    ])
    expect([made.exitCode, String(made.stderr)]).toEqual([0, ''])
    const { port } = new URL(operator_url)
    const scrape_token = readFileSync(token, 'utf8')
    server = await Prometheus.open({ port: Number(port), scrape_token, certificate })
    const prometheus = server
    const fires = (name: string) => prometheus.fires(name)
    const numberOf = (expression: string) => prometheus.numberOf(expression)
    await prometheus.until('ready venue', async () => (await numberOf('tacit_ready')) === '1')
    expect(await numberOf('up{job="tacit"}')).toBe('1')
    expect(await fires('TacitDown')).toBe(false)
    process.kill(venue.pid, 'SIGKILL')
    await prometheus.until('TacitDown', () => fires('TacitDown'))
    while (venue.runs) await Bun.sleep(20)
    await venue.launch({ TACIT_OPERATOR_LISTEN: `127.0.0.1:${port}` })
    await prometheus.until(
      'end of TacitDown',
      async () => !(await fires('TacitDown')) && (await numberOf('tacit_ready')) === '1',
    )
  },
  120_000,
)

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
    const advice =
      'correct the rows of docs/operations.md "16. Metrics": name, type and help as the code has them'
    expect(listed.sort(), advice).toEqual([...new Set(shown)].sort())
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
    for await (const { body } of recordsOf(journal, seq + 1)) bytes += body.length
    expect(Math.abs(bytes / notes.length - said)).toBeLessThan(said / 10)
  } finally {
    await site.remove()
  }
})
