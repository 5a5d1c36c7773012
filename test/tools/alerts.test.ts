/** Alert rules and dashboard name only what the venue shows, hold their cases, and a real Prometheus works with them. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { REASON_WORDS } from '../../engine/operator'
import { VenueProcess } from '../faults/kit/venue_process'

const ROOT = join(import.meta.dir, '../..')
const DOCS = join(ROOT, 'docs')
const RULES = readFileSync(join(DOCS, 'alerts.yaml'), 'utf8')
const DASHBOARD = readFileSync(join(DOCS, 'dashboard.json'), 'utf8')
const [promtool, prometheus] = [Bun.which('promtool'), Bun.which('prometheus')]
if (promtool === null || prometheus === null)
  console.log('skipped: the rules are not run, as the package prometheus is not installed')

const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-alerts-'))
let server: Bun.Subprocess | undefined
afterAll(async () => {
  server?.kill('SIGKILL')
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
    [...text.matchAll(/(?:tacit|process)_[a-z_]+/g)].map(([name]) => name),
  )
  for (const name of used) expect(listed).toContain(name)
  const excepted = /reason!~"([a-z|_]+)"/.exec(RULES)![1]!.split('|')
  for (const word of excepted) expect(REASON_WORDS).toContain(word)
  expect(JSON.parse(DASHBOARD).panels.length).toBeGreaterThan(10)
})

test.skipIf(promtool === null)('every rule holds its cases', () => {
  for (const args of [
    ['check', 'rules', 'alerts.yaml'],
    ['test', 'rules', 'alerts_test.yaml'],
  ]) {
    const { exitCode, stdout, stderr } = Bun.spawnSync([promtool!, ...args], { cwd: DOCS })
    expect([exitCode, `${stdout}${stderr}`]).toEqual([0, expect.stringContaining('SUCCESS')])
  }
  const cases = readFileSync(join(DOCS, 'alerts_test.yaml'), 'utf8')
  for (const [, name] of RULES.matchAll(/alert: (\w+)/g)) expect(cases).toContain(`alertname: ${name}`)
})

test.skipIf(prometheus === null)(
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
    // The rules as they are, but without their patience.
    writeFileSync(join(folder, 'alerts.yaml'), RULES.replace(/^ +for: .+\n/gm, ''))
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s', scrape_timeout: '1s' },
      rule_files: [join(folder, 'alerts.yaml')],
      scrape_configs: [
        {
          job_name: 'tacit',
          scheme: 'https',
          authorization: { type: 'Bearer', credentials_file: token },
          tls_config: { ca_file: certificate, server_name: 'localhost' },
          static_configs: [{ targets: [`127.0.0.1:${new URL(operator_url).port}`] }],
        },
      ],
    }
    writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config))
    const free = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
    const address = `127.0.0.1:${free.port}`
    await free.stop(true)
    server = Bun.spawn(
      [
        prometheus!,
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=${address}`,
      ],
      { stdout: 'ignore', stderr: 'ignore' },
    )
    const ask = async (path: string) => (await (await fetch(`http://${address}/api/v1/${path}`)).json()).data
    const until = async (name: string, holds: () => Promise<boolean>) => {
      for (let left = 300; !(await holds().catch(() => false)); left--) {
        if (left === 0) throw new Error(`no ${name}`)
        await Bun.sleep(100)
      }
    }
    const fires = async (name: string) =>
      (await ask('alerts')).alerts.some(
        ({ labels, state }: { labels: { alertname: string }; state: string }) =>
          labels.alertname === name && state === 'firing',
      )
    const numberOf = async (query: string) =>
      (await ask(`query?query=${encodeURIComponent(query)}`)).result[0]?.value[1] as string | undefined
    await until('ready venue', async () => (await numberOf('tacit_ready')) === '1')
    expect(await numberOf('up{job="tacit"}')).toBe('1')
    expect(await fires('TacitDown')).toBe(false)
    process.kill(venue.pid, 'SIGKILL')
    await until('TacitDown', () => fires('TacitDown'))
    const { port } = new URL(operator_url)
    while (venue.runs) await Bun.sleep(20)
    await venue.launch({ TACIT_OPERATOR_LISTEN: `127.0.0.1:${port}` })
    await until(
      'end of TacitDown',
      async () => !(await fires('TacitDown')) && (await numberOf('tacit_ready')) === '1',
    )
  },
  120_000,
)
