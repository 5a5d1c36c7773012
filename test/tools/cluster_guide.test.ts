/**
 * Runs the commands of "Several nodes" in docs/operations.md as printed, with real members on loopback: certificates, members, manifest,
 * a member that is replaced, and a log that begins again after all members lost their data.
 */
import { afterAll, expect, test } from 'bun:test'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environmentOf } from '../../client/verify/manifest/lint_manifest'
import { parsePlainYaml } from '../../client/verify/manifest/plain_yaml'
import { Etcd } from '../../engine/cluster/etcd'
import { LogRolledBack, ReplicatedLog } from '../../engine/cluster/replicated_log'
import { toHex } from '../../protocol/bytes'
import { ETCD, freeUrls } from '../../sandbox/cluster/etcd_cluster'
import { clusterConfig } from '../../server/settings/config'
import { failure } from '../engine/journal/folder'
import { entryOf } from '../kit/etcd/log_entries'
import { OPERATOR_VALUES } from '../kit/verify/filled_manifest'

const ROOT = join(import.meta.dir, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8').split('## 22. Several nodes')[1]!
const BLOCKS = [...GUIDE.matchAll(/```sh\n([\s\S]+?)```/g)].map(([, text]) => text!)
const [CERTIFICATES, MEMBER, MANIFEST, REPLACE, JOINED, REPAIR] = BLOCKS as [
  string,
  string,
  string,
  string,
  string,
  string,
]
const SEALING = { key: new Uint8Array(32).fill(1), venue: new Uint8Array(32).fill(2) }
const START = { seq: 0, head: new Uint8Array(32) }

const dir = mkdtempSync(join(tmpdir(), 'tacit-guide-'))
const members = new Map<number, Bun.Subprocess>()
afterAll(async () => {
  for (const one of members.keys()) await kill(one)
  rmSync(dir, { recursive: true, force: true })
})

async function kill(member: number): Promise<void> {
  members.get(member)?.kill('SIGKILL')
  await members.get(member)?.exited
}

/** Runs lines of the guide in the folder; `bun run` runs the script of this tree. */
function shell(lines: string, env: Record<string, string> = {}): string {
  const script = lines.replaceAll('bun run ', `bun run --cwd ${ROOT} --silent `)
  const { stdout, stderr, exitCode } = Bun.spawnSync(['sh', '-ec', script], {
    cwd: dir,
    env: { ...process.env, ...env },
  })
  if (exitCode !== 0) throw new Error(`${exitCode}: ${stdout}${stderr}`)
  return stdout.toString()
}

const membersOf = (list: string) =>
  (JSON.parse(shell(list)) as { members: { ID: string; name: string }[] }).members

function succeeds(lines: string): boolean {
  try {
    shell(lines)
    return true
  } catch {
    return false
  }
}

/** Client and peer address of each member. */
let hosts: string[] = []
const localized = (text: string) =>
  text.replace(/(HOST_([123])|0\.0\.0\.0):(2379|2380)/g, (_, __, n: string | undefined, port) =>
    n === undefined ? `OWN_${port}` : hosts[2 * (Number(n) - 1) + (port === '2380' ? 1 : 0)]!,
  )

/** Starts a member by the line of the first one, with its own name and host. */
function start(n: number, state = 'new', folder = `d${n}`): void {
  const own = MEMBER.replace('--name m1', `--name m${n}`)
    .replace('--initial-cluster-state new', `--initial-cluster-state ${state}`)
    .replace('--advertise-client-urls https://HOST_1', `--advertise-client-urls https://HOST_${n}`)
    .replace(
      '--initial-advertise-peer-urls https://HOST_1',
      `--initial-advertise-peer-urls https://HOST_${n}`,
    )
    .replace('DIR', folder)
  const [client, peer] = [hosts[2 * n - 2]!, hosts[2 * n - 1]!]
  const line = localized(own).replaceAll('OWN_2379', client).replaceAll('OWN_2380', peer)
  const command = line.replace('etcd ', `exec ${ETCD} --log-level error `)
  members.set(n, Bun.spawn(['sh', '-ec', command], { cwd: dir, stdout: 'ignore', stderr: 'ignore' }))
}

/** Makes the manifest, with the values of step 4 too; what a node reads of the log from it and from the secrets. */
function manifestSettings() {
  copyFileSync(join(ROOT, 'compose.cluster.yaml'), join(dir, 'compose.cluster.yaml'))
  writeFileSync(join(dir, 'secrets.env'), `TACIT_FEE_ANCHOR=${'0'.repeat(63)}1\n`, { mode: 0o600 })
  const values = OPERATOR_VALUES.map((one) => `--set ${one}`).join(' ')
  const files = `$PWD/compose.cluster.yaml ${values} --out $PWD/app-compose.json`
  const out = shell(localized(MANIFEST).replace('compose.cluster.yaml', files))
  expect(out).toContain('secrets       TACIT_ETCD_KEY, TACIT_FEE_ANCHOR')
  const secrets = readFileSync(join(dir, 'secrets.env'), 'utf8').trim().split('\n')
  expect(secrets.map((line) => line.split('=')[0])).toEqual(['TACIT_ETCD_KEY', 'TACIT_FEE_ANCHOR'])
  expect(statSync(join(dir, 'secrets.env')).mode & 0o077).toBe(0)
  const { docker_compose_file } = JSON.parse(readFileSync(join(dir, 'app-compose.json'), 'utf8'))
  const settings = environmentOf(parsePlainYaml(docker_compose_file))
  const text = (name: string) => String(settings.get(name))
  return {
    TACIT_ETCD_URLS: text('TACIT_ETCD_URLS'),
    TACIT_ETCD_CA: text('TACIT_ETCD_CA'),
    TACIT_ETCD_CERT: text('TACIT_ETCD_CERT'),
    TACIT_ETCD_KEY: secrets[0]!.slice('TACIT_ETCD_KEY='.length),
  }
}

test.skipIf(ETCD === undefined)(
  'the commands for several nodes, in order',
  async () => {
    expect(BLOCKS.length).toBe(6)
    hosts = (await freeUrls(6)).map((url) => new URL(url).host)
    shell(
      CERTIFICATES.replaceAll(/HOST_([123])/g, 'localhost').replace(
        'DNS:localhost,DNS:localhost,DNS:localhost',
        'DNS:localhost,IP:127.0.0.1',
      ),
    )
    for (const n of [1, 2, 3]) start(n)

    const env = manifestSettings()
    const { cluster } = clusterConfig({ ...env, TACIT_ETCD_URLS: env.TACIT_ETCD_URLS.split(',') })
    const log = new ReplicatedLog(new Etcd(cluster!), SEALING)
    const term = await log.takeTerm(1, START)
    const first = entryOf(START, 'first')
    await log.append(term, first)

    // A member that lost its disk.
    await kill(1)
    const [list, remove, add] = localized(REPLACE).trim().split('\n') as [string, string, string]
    const lost = membersOf(list).find(({ name }) => name === 'm1')!.ID
    // The killed member may have led: a change on its way to it has no answer.
    while (membersOf(list).some(({ ID }) => ID === lost))
      succeeds(remove.replace('"ID":"ID"', `"ID":"${lost}"`))
    // Members that have seen each other for less than five seconds take no other.
    while (membersOf(list).length < 3) if (!succeeds(add)) await Bun.sleep(500)
    start(1, 'existing', 'd1-new')
    while (!succeeds(localized(JOINED))) await Bun.sleep(100)
    await kill(2)
    const second = entryOf(first.to, 'second')
    await log.append(term, second)

    // All data is lost.
    for (const n of [1, 3]) await kill(n)
    for (const n of [1, 2, 3]) start(n, 'new', `d${n}-again`)
    expect(await failure(log.takeTerm(2, second.to))).toBeInstanceOf(LogRolledBack)
    const values = { VENUE: toHex(SEALING.venue), SEQ: String(second.to.seq), HEAD: toHex(second.to.head) }
    const repair = REPAIR.replace(/VENUE|SEQ|HEAD/g, (name) => values[name as keyof typeof values])
    expect(shell(repair, env)).toStartWith('ok:')
    const next = await log.takeTerm(2, second.to)
    await log.append(next, entryOf(second.to, 'third'))
  },
  120_000,
)
