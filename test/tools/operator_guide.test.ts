/** Runs the commands of docs/operations.md as printed: program and account, backup and restore, several nodes. */

import { afterAll, expect, test } from 'bun:test'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environmentOf, parsePlainYaml } from '../../client/verify/lint_manifest'
import { Etcd } from '../../engine/cluster/etcd'
import { LogRolledBack, ReplicatedLog } from '../../engine/cluster/replicated_log'
import { scripts } from '../../package.json'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, fromHex, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { NATIVE_MINT } from '../../sandbox/chain/faucet'
import { ETCD, freeUrls } from '../../sandbox/cluster/etcd_cluster'
import { clusterConfig } from '../../server/settings/config'
import { failure } from '../engine/journal/folder'
import { VenueProcess } from '../faults/kit/venue_process'
import { withChain } from '../kit/chain/chain_folder'
import { entryOf } from '../kit/etcd/log_entries'
import { MULTISIG_ADDRESS, OperatorDesk } from '../kit/program_command'
import { run } from '../kit/said'
import { accountId, testCredential } from '../kit/venue/test_login'
import { OPERATOR_VALUES } from '../kit/verify/hostile_manifests'

/**
 * Runs every `bun run program` and `bun run account` line of docs/operations.md as printed, in order: those with a multisig
 * as admin from the start, these on a venue process. Exports have a separate test (audit_batch.test.ts).
 */

const ROOT = join(import.meta.dir, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
const LINES = GUIDE.split('\n').filter((line) => line.startsWith('bun run program '))

/** Words of the lines that are the same in each run. */
const FIXED = {
  MINT: NATIVE_MINT,
  NEXT: 'next.so',
  COMPOSE_HASH: '5a'.repeat(32),
  MINIMUM: '04'.repeat(18),
}

/** Where the other commands of the guide are run. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  account: 'test/tools/operator_guide.test.ts',
  'cluster-repair': 'test/tools/operator_guide.test.ts',
  'image-inputs': 'test/tools/image_inputs.test.ts',
  image: 'test/tools/wrong_inputs.test.ts',
  manifest: 'test/tools/manifest.test.ts',
  'read-machine': 'test/tools/deploy_program.test.ts',
  tacit: 'test/tools/wrong_inputs.test.ts',
  restore: 'test/tools/operator_guide.test.ts',
  reference: 'test/engine/reference.test.ts',
  'validator-demo': 'test/tools/wrong_inputs.test.ts',
}

test('every command of the guide is run by a test', () => {
  const named = new Set([...GUIDE.matchAll(/bun run ([a-z-]+)/g)].map(([, name]) => name!))
  named.delete('program')
  expect([...named].sort()).toEqual(Object.keys(ELSEWHERE).sort())
  for (const [name, path] of Object.entries(ELSEWHERE)) {
    expect(Object.keys(scripts)).toContain(name)
    expect(existsSync(join(ROOT, path))).toBe(true)
  }
  const usage = Bun.spawnSync([
    process.execPath,
    join(ROOT, 'tools/program/main.ts'),
    '--help',
  ]).stdout.toString()
  const verbs = [...usage.matchAll(/^ {2}([a-z][a-z -|]*?)(?= +(?:--|UNSIGNED))/gm)].flatMap(([, words]) =>
    words!.split(' | ').map((word) => word.split(' ')[0]!),
  )
  const shown = new Set(LINES.map((line) => line.split(' ')[3]!))
  expect(verbs.filter((verb) => !shown.has(verb))).toEqual([])
})

test('the program lines of the guide, in order', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    using desk = new OperatorDesk(chain)
    const program = desk.key('program.json')
    const facts: Record<string, string> = {
      URL: chain.url,
      ID: program,
      MULTISIG: MULTISIG_ADDRESS,
      PAYER: desk.key('payer.json'),
      NEW_ADMIN: desk.key('new-admin.json'),
      ...FIXED,
      NONCE: 'printed by create-nonce',
      BUFFER: 'named in upgrade.json',
    }
    for (const address of [facts['PAYER']!, desk.key('deployer.json'), MULTISIG_ADDRESS, facts['NEW_ADMIN']!])
      await desk.fund(address)
    const next = concatBytes(readFileSync(join(ROOT, 'program/vault.so')), Uint8Array.of(1, 2, 3, 4))
    writeFileSync(desk.path('next.so'), next)
    writeFileSync(desk.path('next.so.sha256'), `${toHex(sha256(next))}  next.so\n`)

    const shown = async (): Promise<Record<string, unknown> & { vault: Record<string, unknown> }> => {
      const { out } = await desk.run(['show', '--rpc', chain.url, '--program', program])
      return JSON.parse(out)
    }
    let pending = ''
    for (const line of LINES) {
      const args = line
        .replace(/ +#.*$/, '')
        .split(' ')
        .slice(3)
      const words = args.map((word) => facts[word] ?? word)
      if (words[0]!.startsWith('apply-')) chain.warpTime(2 * 604_800 + 60)
      const typed = words[0] === 'set-authority' ? `${MULTISIG_ADDRESS}\n` : ''
      const { code, out, error } = await desk.run(words, typed)
      expect([line, code, error]).toEqual([line, 0, ''])
      facts['NONCE'] = /nonce account: (\w+)/.exec(out)?.[1] ?? facts['NONCE']!
      const file = words[words.indexOf('--unsigned') + 1]!
      if (words[0] === 'deploy' && words.includes('--unsigned')) {
        const { accounts } = JSON.parse(readFileSync(desk.path(file), 'utf8')).instructions[0]
        facts['BUFFER'] = accounts.find(({ name }: { name: string }) => name === 'buffer').pubkey
        pending = file
      } else if (words.includes('--unsigned') && !words.includes('--nonce'))
        await desk.execute(file, 'payer.json')
      if (words.includes('--buffer')) {
        const buffer = { authority: MULTISIG_ADDRESS, code_is_tested: true }
        expect(JSON.parse(out)).toMatchObject({ code_is_tested: false, buffer })
        await desk.execute(pending, 'payer.json')
      }
      if (words[0] === 'register-mint') {
        const { vault, ...rest } = await shown()
        expect(vault).toMatchObject({ admin: MULTISIG_ADDRESS, epoch: 0, pending: [] })
        expect(rest).toMatchObject({ code_is_tested: true })
      }
      if (words[0] === 'pause') expect((await shown()).vault).toMatchObject({ paused: true })
      if (words[0] === 'unpause') expect((await shown()).vault).toMatchObject({ paused: false })
    }
    const { vault, ...rest } = await shown()
    expect(vault).toMatchObject({ admin: facts['NEW_ADMIN'], paused: false, pending: [] })
    expect(rest).toMatchObject({ authority: null, code_is_tested: false })
    const code = chain.machine.bank.newest(program)!.data.subarray(4, 36)
    const held = chain.machine.bank.newest(encodeBase58(code))!.data
    expect(toHex(held.subarray(45, 45 + next.length))).toBe(toHex(next))
    expect(decodeBase58(facts['NONCE']!, 32)).toBeDefined()
  })
}, 240_000)

test('the account lines of the guide, in order, from an admission to the drain', async () => {
  const lines = GUIDE.split('\n').filter((line) => /^bun run (account|reference) /.test(line))
  const folder = mkdtempSync(join(tmpdir(), 'tacit-guide-'))
  const venue = new VenueProcess()
  try {
    const { certificate, operator_key, operator_url, url } = await venue.start()
    const tls = { ca: readFileSync(certificate, 'utf8') }
    const info = (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }
    const { request } = testCredential('desk', fromHex(info.venue, 32)!)
    writeFileSync(join(folder, 'desk-1.json'), JSON.stringify(request))
    const account_id = accountId('desk')
    const facts: Record<string, string> = {
      URL: operator_url,
      VENUE_ID: info.venue,
      ACCOUNT_ID: account_id,
      TARGET: `--operator-key operator.key --url ${operator_url} --venue ${info.venue} --ca ${certificate}`,
    }
    const give = async (line: string) => {
      const [name, ...args] = line
        .replace(/ +#.*$/, '')
        .split(' ')
        .slice(2)
        .flatMap((word) => (facts[word] ?? word).split(' '))
      // The guide's operator has a public certificate where no --ca is named.
      const ca = args.includes('--url') && !args.includes('--ca') ? ['--ca', certificate] : []
      const main = join(ROOT, `tools/${name}/main.ts`)
      const { code, out, error } = await run([process.execPath, main, ...args, ...ca], { cwd: folder })
      expect([line, code, error]).toEqual([line, 0, ''])
      return out
    }
    const known = async () => {
      const { items } = JSON.parse(await give('bun run account list TARGET')) as {
        items: { account_id: string; state: string; version: number; limits: object }[]
      }
      return items.find((one) => one.account_id === account_id)
    }
    let drained = false
    const states: Record<string, object> = {
      admit: { state: 'active', version: 1, limits: { orders_live_max: 500, rate_capacity: 100 } },
      limit: { version: 2, limits: { orders_live_max: 500, rate_capacity: 200 } },
      suspend: { state: 'suspended', version: 3 },
      resume: { state: 'active', version: 4 },
      close: { state: 'closed', version: 5 },
    }
    for (const line of lines) {
      const verb = line.split(' ')[3]!
      // The drain of the backup has its test below; here the venue is gone by then.
      if (['export', 'post'].includes(verb) || (verb === 'drain' && drained)) continue
      drained ||= verb === 'drain'
      const out = await give(line)
      if (verb === 'operator-keygen') copyFileSync(operator_key, join(folder, 'operator.key'))
      if (verb === 'metrics') expect(out).toContain('tacit_ready 1')
      if (verb in states) expect([verb, await known()]).toMatchObject([verb, states[verb]!])
    }
    expect(drained).toBe(true)
    expect(await venue.ended()).toBe(0)
  } finally {
    await venue.remove()
    rmSync(folder, { recursive: true, force: true })
  }
}, 120_000)

const SECTION = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
  .split(/^## /m)
  .find((text) => text.startsWith('20. '))!
/** The lines of the section's block: drain, take, judge, put back. */
const [DRAIN, TAKE, JUDGE, PUT_BACK] = /```sh\n([^`]+)```/
  .exec(SECTION)![1]!
  .split('\n')
  .map((line) => line.replace(/ +#.*$/, '')) as [string, string, string, string]

const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-backup-'))
const extracted = join(folder, 'extracted')
mkdirSync(extracted)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

let target = ''
/** The operator's commands, once the venue serves. */
async function open(): Promise<void> {
  const { certificate, operator_key, operator_url, url } = venue.facts
  const tls = { ca: readFileSync(certificate, 'utf8') }
  const info = (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }
  target = `--operator-key ${operator_key} --url ${operator_url} --venue ${info.venue} --ca ${certificate}`
}

/** Gives a line of the guide; `BACKUP` is `archive`. */
function give(line: string, archive: string) {
  const words = line
    .replace('TARGET', target)
    .replace('--rpc URL,URL --program ID', `--laptop ${venue.data_dir}`)
    .split(' ')
    .map((word) => ({ BACKUP: archive, DATA: venue.data_dir, DIR: extracted })[word] ?? word)
  const script = words.slice(0, 2).join(' ') === 'bun run'
  const command = script
    ? [process.execPath, join(ROOT, `tools/${words[2]}/main.ts`), ...words.slice(3)]
    : words
  return run(command)
}
async function done(line: string, archive: string): Promise<string> {
  const { code, error, out } = await give(line, archive)
  expect([line, code, error]).toEqual([line, 0, ''])
  return out
}

async function admit(name: string): Promise<void> {
  const request = join(folder, `${name}.json`)
  const venue_id = fromHex(/--venue (\w+)/.exec(target)![1]!, 32)!
  writeFileSync(request, JSON.stringify(testCredential(name, venue_id).request))
  await done(`bun run account admit --request ${request} TARGET`, '')
}
async function accounts(): Promise<string[]> {
  const { items } = JSON.parse(await done('bun run account list TARGET', '')) as {
    items: { account_id: string }[]
  }
  return items.map((one) => one.account_id)
}

async function take(archive: string): Promise<void> {
  await done(DRAIN, archive)
  expect(await venue.ended()).toBe(0)
  await done(TAKE, archive)
}
async function judge(archive: string) {
  rmSync(extracted, { recursive: true })
  mkdirSync(extracted)
  await done(PUT_BACK.replace('DATA', 'DIR'), archive)
  const { code, out } = await give(JUDGE, archive)
  return { code, ...(JSON.parse(out) as { may_trade: boolean; fault?: string }) }
}
/** Everything of the venue except its data: chain and keys of the sandbox. */
function loseDisk(): void {
  const data = ['journal', 'snapshots', 'stores', 'history', 'hashing']
  expect(readdirSync(venue.data_dir)).toEqual(expect.arrayContaining(data))
  for (const name of data) rmSync(join(venue.data_dir, name), { recursive: true })
}

test('the newest backup goes on where the venue stopped; an older one is refused by check and start', async () => {
  const [older, newest] = [join(folder, 'older.tar'), join(folder, 'newest.tar')]
  await venue.start()
  await open()
  await admit('desk')
  await take(older)
  await venue.start()
  await open()
  await admit('fund')
  await take(newest)

  expect(await judge(newest)).toMatchObject({ code: 0, may_trade: true })
  expect(await judge(older)).toMatchObject({ code: 1, may_trade: false, fault: 'rolled_back' })

  loseDisk()
  await done(PUT_BACK, newest)
  await venue.start()
  await open()
  expect(await accounts()).toEqual(expect.arrayContaining([accountId('desk'), accountId('fund')]))
  const status = async () => {
    const { certificate, url } = venue.facts
    const tls = { ca: readFileSync(certificate, 'utf8') }
    return (await (await fetch(`${url}/system/status`, { tls })).json()) as {
      ready: boolean
      reasons: string[]
    }
  }
  while (!(await status()).ready) await Bun.sleep(50)
  await venue.stop()

  loseDisk()
  await done(PUT_BACK, older)
  await venue.start()
  const { ready, reasons } = await status()
  expect([ready, reasons.join()]).toEqual([false, expect.stringContaining('rolled_back')])
}, 240_000)

const CLUSTER_GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8').split('## 22. Several nodes')[1]!
const BLOCKS = [...CLUSTER_GUIDE.matchAll(/```sh\n([\s\S]+?)```/g)].map(([, text]) => text!)
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

/** Makes the manifest, with the values of step 4 too; returns a node's settings of the log from it and from the secrets. */
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
