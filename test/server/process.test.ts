/** The process as an operator runs it: boots, proves its key before its vault exists, serves, ends well and comes back. */

import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { environmentOf, parsePlainYaml } from '../../client/verify/lint_manifest'
import { KEY_PATHS } from '../../enclave/contract'
import { VaultAbsent, VaultUnreadable } from '../../engine/chain/client/read_vault'
import { decodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import { openLog } from '../../server/edge/log'
import { proveUntilOpen } from '../../server/join_process'
import { MachineUnjudged } from '../../server/self_check'
import { openMachine, openOn } from '../enclave/machine'
import { FILLED_COMPOSE } from '../kit/verify/hostile_manifests'

const MAIN = join(import.meta.dir, '../../server/main.ts')
const data_dir = mkdtempSync(join(tmpdir(), 'tacit-process-'))
const children: Subprocess[] = []
afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  rmSync(data_dir, { recursive: true, force: true })
})

function spawn(settings: Record<string, string>, ...args: string[]) {
  const env = { PATH: process.env['PATH'] ?? '', ...settings }
  const child = Bun.spawn([process.execPath, MAIN, ...args], { env, stdout: 'pipe', stderr: 'pipe' })
  children.push(child)
  return child
}
const SETTINGS = {
  TACIT_DATA_DIR: data_dir,
  TACIT_LISTEN: '127.0.0.1:0',
  TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
  TACIT_SLOT_MS: '25',
}

type Facts = { url: string; certificate: string }
async function boot() {
  const path = join(data_dir, 'laptop.json')
  rmSync(path, { force: true })
  const child = spawn(SETTINGS)
  while (!existsSync(path)) {
    if (child.exitCode !== null) throw new Error(await new Response(child.stderr).text())
    await Bun.sleep(20)
  }
  const { url, certificate } = JSON.parse(readFileSync(path, 'utf8')) as Facts
  return { child, url, tls: { ca: readFileSync(certificate, 'utf8') } }
}
type Venue = Awaited<ReturnType<typeof boot>>

async function login({ url, tls }: Venue): Promise<string> {
  const { login: made } = JSON.parse(readFileSync(join(data_dir, 'demo-login.json'), 'utf8'))
  const { account_id: _, ...demo } = made
  const answer = await fetch(`${url}/auth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(demo),
    tls,
  })
  expect(answer.status).toBe(200)
  return ((await answer.json()) as { access_token: string }).access_token
}
const infoOf = async ({ url, tls }: Venue) =>
  (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string; epoch: number; tee_pubkey: string }

test('a laptop venue serves, says bye on SIGTERM, exits 0, and is the same venue after a restart', async () => {
  const first = await boot()
  const token = await login(first)
  const status = await (await fetch(`${first.url}/system/status`, { tls: first.tls })).json()
  expect(status).toMatchObject({
    ready: true,
    matching: 'running',
    settlement: 'wired',
    enclave: 'development',
  })
  const before = await infoOf(first)

  const socket = new WebSocket(`${first.url.replace('https', 'wss')}/ws/trading?token=${token}`, {
    tls: first.tls,
  } as never)
  const frames: { type: string }[] = []
  const greeted = Promise.withResolvers<void>()
  socket.onmessage = ({ data }) => {
    frames.push(JSON.parse(String(data)))
    greeted.resolve()
  }
  const closed = new Promise<number>((resolve) => {
    socket.onclose = ({ code }) => resolve(code)
  })
  await greeted.promise
  first.child.kill('SIGTERM')
  expect(await closed).toBe(1012)
  expect(frames.at(-1)).toMatchObject({ type: 'bye', reason: 'upgrade' })
  expect(await first.child.exited).toBe(0)

  const output = new Response(first.child.stdout).text()
  const lines = (await output).split('\n').filter((line) => line.startsWith('{'))
  expect(lines.map((line) => JSON.parse(line).event)).toEqual(
    expect.arrayContaining(['enclave_open', 'venue_open', 'listening', 'draining', 'stopped']),
  )
  expect(lines.join()).not.toContain(token)
  const printed = await output
  const { login: made } = JSON.parse(readFileSync(join(data_dir, 'demo-login.json'), 'utf8'))
  const { account_id: _, ...demo } = made
  const body = join(data_dir, 'demo-token-request.json')
  expect(printed).toContain(`-d @${body}`)
  expect(JSON.parse(readFileSync(body, 'utf8'))).toEqual(demo)
  expect(statSync(body).mode & 0o777).toBe(0o600)
  for (const secret of [demo.api_secret, demo.passphrase]) expect(printed).not.toContain(secret)

  const second = await boot()
  // The journal holds its hash until it ends.
  const asked = { headers: { authorization: `Bearer ${token}` }, tls: second.tls }
  expect((await fetch(`${second.url}/fills`, asked)).status).toBe(200)
  const revoked = await fetch(`${second.url}/auth/token/revoke`, { ...asked, method: 'POST' })
  expect(revoked.status).toBe(200)
  expect((await fetch(`${second.url}/fills`, asked)).status).toBe(401)
  await login(second)
  const after = await infoOf(second)
  expect(after).toMatchObject({ venue: before.venue, epoch: before.epoch + 1 })
  expect(after.tee_pubkey).not.toBe(before.tee_pubkey)
  second.child.kill('SIGTERM')
  second.child.kill('SIGTERM')
  expect([0, 1]).toContain(await second.child.exited)
}, 120_000)

test('--check prints settings with secrets masked, or every fault', async () => {
  const good = spawn({ ...SETTINGS, TACIT_DATA_DIR: join(data_dir, 'check') }, '--check')
  expect(await good.exited).toBe(0)
  const printed = await new Response(good.stdout).text()
  expect(printed).toContain('SOLANA_RPC_URL=embedded')
  expect(printed).toContain('TACIT_FEE_ANCHOR=(set)')
  const bad = spawn({ TACIT_ENCLAVE: 'dstack', TACIT_TYPO: '1' }, '--check')
  expect(await bad.exited).toBe(1)
  const faults = await new Response(bad.stderr).text()
  expect(faults).toContain('TACIT_TYPO: no such setting')
  expect(faults).toContain('TACIT_OPERATOR_KEY: required')
})

test('a deployment starts under the names of its settings, image and runtime alone', async () => {
  const image = {
    HOME: '/tmp',
    HOSTNAME: 'venue',
    NODE_ENV: 'production',
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
    DO_NOT_TRACK: '1',
    MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '1000',
    SSL_CERT_FILE: '/etc/ssl/certs/ca-certificates.crt',
  }
  const measured = [...environmentOf(parsePlainYaml(FILLED_COMPOSE))].map(([name, value]) => [
    name,
    String(value),
  ])
  const deployed = { ...Object.fromEntries(measured), TACIT_FEE_ANCHOR: `${'0'.repeat(63)}1` }
  const outcome = async (more: Record<string, string>) => {
    const child = spawn({ ...image, ...deployed, ...more }, '--check')
    const [code, errors] = [await child.exited, await new Response(child.stderr).text()]
    return { code, errors }
  }
  const foreign = {
    LD_LIBRARY_PATH: '/data',
    BUN_CONFIG_VERBOSE_FETCH: 'curl',
    NODE_EXTRA_CA_CERTS: '/dev/null',
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
    HTTPS_PROXY: 'http://evil',
    no_proxy: 'x',
    SSL_CERT_DIR: '/data',
    MALLOC_CONF: 'x',
    TZ: 'UTC',
    XDG_CONFIG_HOME: '/data',
  }
  const wrong = { HOME: '/data', NODE_ENV: 'test', SSL_CERT_FILE: '/data/ca.pem' }
  const refused = await outcome({ ...foreign, ...wrong, TACIT_TYPO: '1' })
  expect(refused.code).toBe(1)
  for (const name of Object.keys(foreign))
    expect(refused.errors).toContain(`${name}: not allowed in the environment of a deployment\n`)
  expect(refused.errors).toContain('HOME: must be /tmp in a deployment\n')
  expect(refused.errors).toContain('NODE_ENV: must be production in a deployment\n')
  expect(refused.errors).toContain(
    'SSL_CERT_FILE: must be /etc/ssl/certs/ca-certificates.crt in a deployment\n',
  )
  expect(refused.errors).toContain('TACIT_TYPO: no such setting\n')
  expect(refused.errors).not.toContain('evil')
  expect(await outcome({ BUN_OPTIONS: '--smol' })).toEqual({
    code: 1,
    errors: 'settings rejected:\nBUN_OPTIONS: not allowed in the environment of a deployment\n',
  })
  expect(await outcome({})).toMatchObject({ code: 0 })
}, 120_000)

test('a data folder without a venue is refused by one line', async () => {
  const folder = (name: string) => join(data_dir, name)
  writeFileSync(folder('file'), '')
  mkdirSync(folder('damaged'))
  writeFileSync(join(folder('damaged'), 'laptop-secrets.json'), '{}')
  mkdirSync(join(folder('bereft'), 'journal'), { recursive: true })
  const told = { file: 'cannot be made or written', damaged: 'is damaged', bereft: 'is missing' }
  for (const [name, sentence] of Object.entries(told)) {
    const child = spawn({ ...SETTINGS, TACIT_DATA_DIR: folder(name) })
    expect(await child.exited).toBe(1)
    const said = await new Response(child.stderr).text()
    expect(said).toContain(sentence)
    expect(said).toContain(folder(name))
    expect(said).not.toContain(' at ')
  }
})

test('a port in use is named, with the settings that name another', async () => {
  using other = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const own_dir = join(data_dir, 'port')
  const child = spawn({ ...SETTINGS, TACIT_DATA_DIR: own_dir, TACIT_LISTEN: `127.0.0.1:${other.port}` })
  expect(await child.exited).toBe(1)
  const said = await new Response(child.stderr).text()
  expect(said).toContain(
    `port ${other.port} of 127.0.0.1 is in use: stop the other process, or set TACIT_LISTEN`,
  )
  expect(existsSync(join(own_dir, 'journal'))).toBe(false)
}, 120_000)

test('a venue that lost its journal serves, and says at its start why it does not trade', async () => {
  for (const name of ['journal', 'snapshots']) rmSync(join(data_dir, name), { recursive: true })
  const venue = await boot()
  const status = await (await fetch(`${venue.url}/system/status`, { tls: venue.tls })).json()
  expect(status).toMatchObject({ ready: false, matching: 'stopped' })
  venue.child.kill('SIGTERM')
  expect(await venue.child.exited).toBe(0)
  const said = await new Response(venue.child.stdout).text()
  expect(said).toContain('"level":"warn","event":"not_trading","reason":"rolled_back: the chain is ahead')
  expect(said).toContain('\n  not trading: rolled_back: the chain is ahead')
}, 120_000)

const at = { hostname: '127.0.0.1', port: 0 }
const lines: string[] = []
const log = openLog((line) => lines.push(line), Date.now)

test('the key is shown with a quote over the nonce until the vault is there', async () => {
  const machine = await openMachine()
  const enclave = await openOn(machine.agent)
  let there = false
  const port = Promise.withResolvers<number>()
  const opened = proveUntilOpen(
    async () => {
      if (!there) throw new VaultAbsent('the vault does not exist at this program')
      return 'chain'
    },
    { at, enclave, log, retry_ms: 5, listening: port.resolve },
  )
  const base = `https://127.0.0.1:${await port.promise}`
  const get = (path: string, method = 'GET') =>
    fetch(base + path, { method, tls: { ca: enclave.tls.cert_pem } })
  const nonce = '5a'.repeat(32)
  const answer = await get(`/attestation?reportData=${nonce}`)
  expect(answer.status).toBe(200)
  const proof = (await answer.json()) as Record<string, string>
  const authority = publicKeyOf(await enclave.deriveKey(KEY_PATHS.epoch_authority))
  expect(decodeBase58(proof['tee_pubkey']!, 32)).toEqual(authority)
  expect(proof['report_data']).toBe(nonce + toHex(sha256(authority)))
  expect(proof['quote']).toContain(proof['report_data']!)
  const fields = ['enclave', 'event_log', 'quote', 'report_data', 'tee_pubkey', 'vm_config']
  expect([Object.keys(proof).sort(), proof['enclave']]).toEqual([fields, 'development'])
  const plain = (await (await get('/attestation')).json()) as Record<string, string>
  expect(plain['report_data']!.slice(0, 64)).toBe('00'.repeat(32))
  expect((await get('/health')).status).toBe(200)
  expect((await get('/attestation?reportData=5a')).status).toBe(400)
  for (const refused of [await get('/instruments'), await get('/orders', 'POST')])
    expect(await refused.json()).toMatchObject({ code: 'settlement_unavailable' })
  there = true
  expect(await opened).toBe('chain')
  const gone = await get('/health').then(
    () => 'answered',
    () => 'gone',
  )
  expect(gone).toBe('gone')
  expect(lines.join('')).toContain('vault_absent')
  await enclave.close()
  await machine.close()
})

test('a machine that cannot be judged yet is waited for, with the reason in the log', async () => {
  const machine = await openMachine()
  const enclave = await openOn(machine.agent)
  const port = Promise.withResolvers<number>()
  let attempts = 0
  const opened = proveUntilOpen(
    async () => {
      attempts += 1
      if (attempts < 3) throw new MachineUnjudged('the service did not answer')
      return 'judged'
    },
    { at, enclave, log, retry_ms: 5, listening: port.resolve },
  )
  expect(await opened).toBe('judged')
  const [line, ...more] = lines.filter((one) => one.includes('machine_unjudged'))
  expect(JSON.parse(line!)).toMatchObject({ level: 'warn', reason: 'the service did not answer' })
  expect([await port.promise, more]).toEqual([JSON.parse(line!).port, []])
  await enclave.close()
  await machine.close()
})

test('a vault that cannot be read is a fault, not something to wait for', async () => {
  const fault = new VaultUnreadable('the vault has an unknown layout')
  const enclave = { keyProof: () => Promise.reject(fault), tls: undefined as never }
  const outcome = await proveUntilOpen(() => Promise.reject(fault), { at, enclave, log }).catch(
    (error) => error,
  )
  expect(outcome).toBe(fault)
})
