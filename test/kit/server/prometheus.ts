/** A Prometheus server of its package that scrapes one operator listener by a token, with the alert rules of docs/. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const [promtool, prometheus] = [Bun.which('promtool'), Bun.which('prometheus')]
/** Without the package `prometheus` nothing here runs. */
export const PROMETHEUS =
  promtool === null || prometheus === null ? undefined : ({ promtool, prometheus } as const)
if (PROMETHEUS === undefined)
  console.log('skipped: the rules are not run, as the package prometheus is not installed')

export const RULES = readFileSync(join(import.meta.dir, '../../../docs/alerts.yaml'), 'utf8')

type Target = {
  /** Of the operator's listener. */
  port: number
  scrape_token: string
  /** Path of the certificate that it presents; undefined for plain http. */
  certificate?: string
}
type Alert = { labels: Record<string, string>; state: string }

export class Prometheus {
  private constructor(
    private readonly address: string,
    private readonly folder: string,
    private readonly child: Bun.Subprocess,
  ) {}

  static async open({ certificate, port, scrape_token }: Target): Promise<Prometheus> {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-prometheus-'))
    const path = (name: string) => join(folder, name)
    writeFileSync(path('scrape.token'), scrape_token)
    // The rules as they are, but without their patience.
    writeFileSync(path('alerts.yaml'), RULES.replace(/^ +for: .+\n/gm, '').replaceAll('[1h]', '[5s]'))
    const secure = { scheme: 'https', tls_config: { ca_file: certificate, server_name: 'localhost' } }
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s', scrape_timeout: '1s' },
      rule_files: [path('alerts.yaml')],
      scrape_configs: [
        {
          job_name: 'tacit',
          ...(certificate === undefined ? {} : secure),
          authorization: { type: 'Bearer', credentials_file: path('scrape.token') },
          static_configs: [{ targets: [`127.0.0.1:${port}`] }],
        },
      ],
    }
    writeFileSync(path('prometheus.yml'), JSON.stringify(config))
    const free = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
    const address = `127.0.0.1:${free.port}`
    await free.stop(true)
    const child = Bun.spawn(
      [
        PROMETHEUS!.prometheus,
        `--config.file=${path('prometheus.yml')}`,
        `--storage.tsdb.path=${path('data')}`,
        `--web.listen-address=${address}`,
      ],
      { stdout: 'ignore', stderr: 'ignore' },
    )
    return new Prometheus(address, folder, child)
  }

  private async ask(path: string) {
    return (await (await fetch(`http://${this.address}/api/v1/${path}`)).json()).data
  }

  /** Whether the alert fires, with `reason` where one is named. */
  async fires(name: string, reason?: string): Promise<boolean> {
    const { alerts } = (await this.ask('alerts')) as { alerts: Alert[] }
    return alerts.some(
      ({ labels, state }) =>
        labels['alertname'] === name &&
        state === 'firing' &&
        (reason === undefined || labels['reason'] === reason),
    )
  }

  /** Names of the alerts that fire, sorted. */
  async firing(): Promise<string[]> {
    const { alerts } = (await this.ask('alerts')) as { alerts: Alert[] }
    const names = alerts.flatMap(({ labels, state }) => (state === 'firing' ? labels['alertname']! : []))
    return [...new Set(names)].sort()
  }

  /** How many series the expression gives now. */
  async series(expression: string): Promise<number> {
    return (await this.ask(`query?query=${encodeURIComponent(expression)}`)).result.length
  }

  /** The first series' value. */
  async numberOf(expression: string): Promise<string | undefined> {
    return (await this.ask(`query?query=${encodeURIComponent(expression)}`)).result[0]?.value[1]
  }

  /** @throws Error with `what` once it has not held for `seconds` */
  async until(what: string, holds: () => Promise<boolean>, seconds = 110): Promise<void> {
    const end_ms = Date.now() + seconds * 1_000
    while (!(await holds().catch(() => false))) {
      if (Date.now() > end_ms) throw new Error(`no ${what}; firing: ${await this.firing().catch(() => '?')}`)
      await Bun.sleep(100)
    }
  }

  async remove(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.child.exited
    rmSync(this.folder, { recursive: true, force: true })
  }
}
