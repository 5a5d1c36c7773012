/** Alert rules and dashboard name only what the venue shows, hold their cases, and a real Prometheus works with them. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REASON_WORDS } from '../../engine/methods/operator'
import { VenueProcess } from '../faults/kit/venue_process'
import { PROMETHEUS, Prometheus, RULES } from '../kit/server/prometheus'

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
