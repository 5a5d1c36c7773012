/** Runs a real etcd cluster of three members on loopback, with client certificates; kills, pauses and restarts members. */

import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  basicConstraints,
  type Extension,
  issueCertificate,
  keyUsage,
  randomSerial,
  subjectAlternativeNames,
} from '../../enclave/x509'
import { pemOfDer } from '../../protocol/x509/certificate'

type Member = { client: string; peer: string; child: Bun.Subprocess | undefined }

const MEMBERS = 3
const START_MS = 60_000

export class EtcdCluster {
  private constructor(
    readonly dir: string,
    readonly tls: TlsFiles,
    private readonly members: Member[],
  ) {}

  /**
   * Resolves once the cluster takes writes.
   * @param prepare is given the folder of each member before its first start
   */
  static async start(prepare?: (data_dir: string) => void): Promise<EtcdCluster> {
    const dir = mkdtempSync(join(tmpdir(), 'tacit-etcd-'))
    const tls = etcdCertificates()
    for (const [name, text] of Object.entries(tls))
      writeFileSync(join(dir, `${name}.pem`), text, { mode: 0o600 })
    const urls = await freeUrls(2 * MEMBERS)
    const members = Array.from({ length: MEMBERS }, (_, i) => ({
      client: urls[2 * i]!,
      peer: urls[2 * i + 1]!,
      child: undefined,
    }))
    const cluster = new EtcdCluster(dir, tls, members)
    try {
      for (let i = 0; i < MEMBERS; i++) {
        mkdirSync(cluster.dataDir(i), { mode: 0o700 })
        prepare?.(cluster.dataDir(i))
        cluster.restart(i)
      }
      await cluster.untilWritable()
      return cluster
    } catch (error) {
      await cluster.stop()
      throw error
    }
  }

  get endpoints(): string[] {
    return this.members.map(({ client }) => client)
  }

  /** Starts a member that is not running, on its old data. */
  restart(index: number): void {
    const member = this.members[index]!
    const file = (name: string) => join(this.dir, `${name}.pem`)
    const secured = (prefix: string) => [
      `--${prefix}cert-file=${file('cert')}`,
      `--${prefix}key-file=${file('key')}`,
      `--${prefix}trusted-ca-file=${file('ca')}`,
      `--${prefix}client-cert-auth`,
    ]
    member.child = Bun.spawn(
      [
        ETCD!,
        `--name=m${index}`,
        `--data-dir=${this.dataDir(index)}`,
        `--listen-client-urls=${member.client}`,
        `--advertise-client-urls=${member.client}`,
        `--listen-peer-urls=${member.peer}`,
        `--initial-advertise-peer-urls=${member.peer}`,
        `--initial-cluster=${this.members.map(({ peer }, i) => `m${i}=${peer}`).join(',')}`,
        '--heartbeat-interval=100',
        '--election-timeout=500',
        '--log-level=error',
        ...secured(''),
        ...secured('peer-'),
      ],
      { stdout: 'ignore', stderr: Bun.file(join(this.dir, `m${index}.log`)) },
    )
  }

  dataDir(index: number): string {
    return join(this.dir, `m${index}`)
  }

  /** Ends a member by kill -9. */
  async kill(index: number): Promise<void> {
    const { child } = this.members[index]!
    child?.kill('SIGKILL')
    await child?.exited
  }

  pause(index: number): void {
    this.members[index]!.child?.kill('SIGSTOP')
  }
  resume(index: number): void {
    this.members[index]!.child?.kill('SIGCONT')
  }

  /** Index of the member that leads; a paused one may believe it, too, and is not asked. */
  async leader(): Promise<number> {
    const end_ms = Date.now() + START_MS
    for (;;) {
      for (const [index, { client }] of this.members.entries()) {
        const status = await this.ask(client, 'maintenance/status', {}).catch(() => undefined)
        const { leader, header } = (status ?? {}) as { leader?: string; header?: { member_id: string } }
        if (leader !== undefined && leader === header?.member_id) return index
      }
      if (Date.now() > end_ms) throw new Error('no etcd member leads')
      await Bun.sleep(50)
    }
  }

  async untilWritable(): Promise<void> {
    const end_ms = Date.now() + START_MS
    const put = { key: btoa('kit/started'), value: btoa('yes') }
    for (const { client } of this.members) {
      for (;;) {
        const done = await this.ask(client, 'kv/put', put).catch(() => undefined)
        if (done !== undefined) break
        if (Date.now() > end_ms) throw new Error('the etcd cluster takes no write')
        await Bun.sleep(50)
      }
    }
  }

  /** Ends every member; the folder stays with `keep`. */
  async stop(keep = false): Promise<void> {
    await Promise.all(this.members.map((_, i) => this.kill(i)))
    if (!keep) rmSync(this.dir, { recursive: true, force: true })
  }

  private async ask(url: string, call: string, body: object): Promise<unknown> {
    const response = await fetch(`${url}/v3/${call}`, {
      method: 'POST',
      body: JSON.stringify(body),
      tls: this.tls,
      signal: AbortSignal.timeout(2_000),
    })
    if (!response.ok) throw new Error(`etcd answered ${response.status}`)
    return response.json()
  }
}

/** Ports that the kernel chose; all are held until the last is known, so that no two are equal. */
export async function freeUrls(count: number): Promise<string[]> {
  const held = Array.from({ length: count }, holdPort)
  const urls = held.map(({ port }) => `https://127.0.0.1:${port}`)
  await Promise.all(held.map((server) => server.stop(true)))
  return urls
}

/** Listens below the ports that systems give to outgoing connections, one of which would take that of a stopped member. */
function holdPort(): Bun.Server<undefined> {
  for (;;) {
    const port = 16_384 + Math.floor(Math.random() * 16_384)
    try {
      return Bun.serve({ hostname: '127.0.0.1', port, fetch: () => new Response() })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    }
  }
}

/** Finds etcd for tests and sandbox: the file that TACIT_ETCD names, or `etcd` of PATH (Debian: `etcd-server`). */
export const ETCD = process.env['TACIT_ETCD'] ?? Bun.which('etcd') ?? undefined
if (ETCD === undefined)
  console.log('skipped: no cluster runs, as neither TACIT_ETCD nor PATH has etcd (Debian: etcd-server)')

/** PEM: the authority that is believed, and the own certificate with its key. */
export type TlsFiles = { ca: string; cert: string; key: string }

const DAY_MS = 86_400_000

/** Issues the certificates of a local cluster: one authority, one pair for members and clients, one of a foreign authority. */
export function etcdCertificates(): TlsFiles {
  const authority = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const member = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
  const issuer = { common_name: 'test authority', organization: 'test' }
  const issue = (common_name: string, subject_key: typeof member, extensions: Extension[]) =>
    pemOfDer(
      issueCertificate({
        subject: { common_name, organization: 'test' },
        issuer,
        subject_key,
        issuer_key: authority,
        serial: randomSerial(),
        not_before_ms: Date.now() - DAY_MS,
        not_after_ms: Date.now() + DAY_MS,
        extensions,
      }),
      'CERTIFICATE',
    )
  const names = subjectAlternativeNames(['localhost', '127.0.0.1'])
  return {
    ca: issue(issuer.common_name, authority, [basicConstraints(true), keyUsage(5, 6)]),
    cert: issue('test member', member, [basicConstraints(false), keyUsage(0), names]),
    key: member.export({ type: 'pkcs8', format: 'pem' }) as string,
  }
}
