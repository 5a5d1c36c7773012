/** `connect` returns a transport for an honest venue only, pinned to one key under a public authority or none. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '../../../client/connect'
import { EVIDENCE_FILES_MAX } from '../../../client/limits'
import { VerificationFailed } from '../../../client/verified_venue'
import {
  collectEvidence,
  EvidenceUnavailable,
  fetchTransport,
} from '../../../client/verify/collect/collect_evidence'
import { parseBundle } from '../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import type { VerificationPolicy } from '../../../client/verify/policy'
import { CHECKS_OF_LEADER, transcriptText } from '../../../client/verify/transcript'
import * as x509 from '../../../enclave/x509'
import { generateTls } from '../../../enclave/x509'
import { pemOfDer } from '../../../protocol/x509/certificate'
import { answerCollateral, changedPolicy, openSite, SITE_SKIPS, type Site } from '../../kit/verify/site'

let site: Site
beforeAll(async () => {
  site = await openSite()
})
afterEach(() => site.restore())
afterAll(() => site.close())

/** Names of the checks that failed, or the error's name; `accepted` when there was none. */
async function refusal(connecting: Promise<unknown>): Promise<string> {
  try {
    await connecting
    return 'accepted'
  } catch (error) {
    if (!(error instanceof VerificationFailed)) return (error as Error).name
    const failed = error.transcript.checks.filter((check) => check.result === 'fail')
    return failed.map((check) => check.name).join(' ') || error.transcript.verdict
  }
}

test('an honest venue is verified, each check is reported, and the transport works', async () => {
  const venue = await site.connect()
  expect(venue.transcript.verdict).toBe('partial')
  expect(venue.evidence.missing).toEqual({})
  const lines = transcriptText(venue.transcript).split('\n')
  for (const { number, statement, result, reason, reason_code } of venue.transcript.checks)
    expect(lines).toContain(
      result === 'pass'
        ? `${number} pass  ${statement}`
        : `${number} skip  ${statement}: ${reason} (${reason_code})`,
    )
  const platform = venue.transcript.checks.find((check) => check.name === 'platform')!
  expect(platform.values).toMatchObject({ tcb_status: 'UpToDate', advisories: 'none' })
  expect(venue.transcript.checks.map((check) => check.number)).toEqual(
    CHECKS_OF_LEADER.map(([number]) => number),
  )
  const skipped = venue.transcript.checks.filter((check) => check.result === 'skipped')
  expect([...new Set(skipped.map((check) => check.reason_code))]).toEqual([...SITE_SKIPS])
  expect(skipped.every((check) => check.reason !== '')).toBe(true)
  expect(transcriptText(venue.transcript)).toContain('NOT PRODUCTION')
  expect((await venue.fetch('/info')).status).toBe(200)
  const socket = venue.webSocket('/ws')
  const first = await new Promise((resolve) => {
    socket.onmessage = (message) => resolve(message.data)
  })
  expect(first).toBe('hello')
  socket.close()
})

test('a skip that the policy does not permit refuses the venue', async () => {
  expect(await refusal(site.connect({ permitted_skips: [] }))).toBe('incomplete')
  expect(
    await refusal(
      site.connect({ permitted_skips: SITE_SKIPS.filter((reason) => reason !== 'keys_without_kms') }),
    ),
  ).toBe('incomplete')
  const without_chain = changedPolicy(site.policy, { chain: undefined })
  const collateral = site.machine.agent.collateral()
  expect(await refusal(connect(site.url, without_chain, { collateral }))).toBe('incomplete')
})

test('each connection asks with a fresh nonce', async () => {
  const [first, second] = [await site.connect(), await site.connect()]
  expect(first.evidence.nonce).not.toBe(second.evidence.nonce)
})

test('a simulated enclave is refused unless the policy names its root', async () => {
  const policy = changedPolicy(site.policy, { roots_pem: undefined })
  const connecting = connect(site.url, policy, { collateral: site.machine.agent.collateral() })
  expect(await refusal(connecting)).toBe('collateral enclave')
})

test('a venue that does not answer, or not over TLS, gives no transport', async () => {
  expect(await refusal(connect('https://127.0.0.1:1', site.policy))).toBe(EvidenceUnavailable.name)
  await expect(connect('http://127.0.0.1:1', site.policy)).rejects.toThrow(RangeError)
  for (const body of ['', 'null', '[]', '{}', '{"app_id":1}']) {
    site.answers.set('/info', () => body)
    expect(await refusal(site.connect())).toBe(EvidenceUnavailable.name)
  }
})

test('an id of another form ends the collection before it is part of any request', async () => {
  const asked: string[] = []
  const other = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      asked.push(new URL(request.url).pathname)
      return new Response('', { status: 404 })
    },
  })
  const url = `http://127.0.0.1:${other.port}`
  const key = 'So11111111111111111111111111111111111111112'
  const authority = { name: 'one', key, url, levels: ['registry'] }
  const location = { authorities: [authority], minimum: 1 } as never
  const honest = JSON.parse(await site.answers.get('/info')!(undefined))
  const ids: Record<string, unknown[]> = {
    app_id: ['', `../${'0'.repeat(37)}`, 'AB'.repeat(20), 'ab'.repeat(32)],
    instance_id: ['../../evil', '00', 'AB'.repeat(20), null],
    compose_hash: ['', '0'.repeat(63)],
    venue: ['0x', 'g'.repeat(64)],
    tee_pubkey: ['', '0'.repeat(44), '1'.repeat(31)],
    config_account: ['1'],
    program_id: ['/'],
    genesis_hash: [''],
    generation: [-1, 0.5, '0'],
    epoch: [-1, 2 ** 53],
    exit_delay_s: [-1, null],
  }
  try {
    for (const [field, values] of Object.entries(ids))
      for (const value of values) {
        site.answers.set('/info', () => JSON.stringify({ ...honest, [field]: value }))
        expect(`${field} ${await refusal(site.connect({ location }))}`).toBe(`${field} EvidenceUnavailable`)
      }
    expect(asked).toEqual([])
    site.answers.set('/info', () => JSON.stringify({ ...honest, instance_id: '' }))
    await refusal(site.connect({ location }))
    expect(asked).toEqual([expect.stringMatching(/^\/[0-9a-f]{32}\/0{40}$/)])
  } finally {
    await other.stop(true)
  }
})

const LITERAL = {
  tcb_statuses: ['UpToDate' as const],
  advisories: [],
  tcb_evaluation_min: 0,
  environment_names: [],
  permitted_skips: [],
}

test('a policy that parsePolicy did not make is rejected before anything is asked', async () => {
  const copy = { ...site.policy }
  // Neither has the type: with `true` this file would not compile.
  const has_type: typeof copy extends VerificationPolicy ? true : false = false
  const literal_has_type: typeof LITERAL extends VerificationPolicy ? true : false = false
  expect([has_type, literal_has_type]).toEqual([false, false])
  const { evidence } = await site.connect()
  site.asked.length = 0
  for (const raw of [copy, LITERAL, {}] as unknown as VerificationPolicy[]) {
    expect(await refusal(connect(site.url, raw))).toBe('Refused')
    expect(await refusal(collectEvidence(fetchTransport(new URL(site.url)), null, raw, {}))).toBe('Refused')
    expect(await refusal(judgeEvidence(evidence, raw, 'live'))).toBe('Refused')
  }
  expect(site.asked).toEqual([])
  expect(() => Object.assign(site.policy, { compose_hashes: [] })).toThrow(TypeError)
  expect(() => site.policy.compose_hashes!.pop()).toThrow(TypeError)
  expect(() => Object.assign(site.policy.chain!, { program_id: '' })).toThrow(TypeError)
})

test('a transport never leaves its venue', async () => {
  const venue = await site.connect()
  for (const path of ['//127.0.0.2/', 'https://127.0.0.2/', 'info'])
    expect(() => venue.fetch(path)).toThrow(RangeError)
})

test('collateral that cannot be had refuses the venue', async () => {
  const policy = changedPolicy(site.policy, { collateral_url: 'http://127.0.0.1:1' })
  expect(await refusal(connect(site.url, policy, { timeout_ms: 1000 }))).toBe('collateral')
  // Others are counted, not listed, so that the cause is visible.
  const refused = await connect(site.url, policy, { timeout_ms: 1000 }).catch((error: unknown) => error)
  expect((refused as Error).message).toMatch(
    /^the venue is refused: collateral: [^;]+; \d+ other checks did not pass either$/,
  )
})

test('the files that the venue lists are read, up to a number of files', async () => {
  const names = Array.from({ length: EVIDENCE_FILES_MAX + 2 }, (_, at) => `file-${at}.json`)
  for (const name of names) site.answers.set(`/evidences/${name}`, () => name)
  const list = ['cert.pem', ...names].map((name) => `${'00'.repeat(32)}  ${name}\n`).join('')
  site.answers.set('/evidences/sha256sum.txt', () => list)
  const refused = (await site.connect().catch((error: unknown) => error)) as VerificationFailed
  const read = names.slice(0, EVIDENCE_FILES_MAX)
  expect(refused.evidence.evidences.more).toEqual(Object.fromEntries(read.map((name) => [name, name])))
})

test('collateral comes from the service that the policy names, for the platform of the quote', async () => {
  const service = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: (request) =>
      answerCollateral(site.machine.agent.collateral(), new URL(request.url).pathname) ??
      new Response('', { status: 404 }),
  })
  const policy = changedPolicy(site.policy, { collateral_url: service.url.origin })
  try {
    const { evidence } = await connect(site.url, policy)
    expect(Object.keys(evidence.collateral!)).toHaveLength(9)
    const honest = await site.answers.get('/attestation')!('11'.repeat(32))
    site.answers.set('/attestation', () => JSON.stringify({ ...JSON.parse(honest), quote: 'zz' }))
    const refused = (await connect(site.url, policy).catch((error: unknown) => error)) as VerificationFailed
    expect(refused.evidence.missing.collateral).toBe('the quote is not hex')
  } finally {
    await service.stop(true)
  }
})

test('a bundle is judged the same offline, from its file, and later', async () => {
  const { evidence, transcript } = await site.connect()
  const bundle = parseBundle(JSON.stringify(evidence))
  const again = await judgeEvidence(bundle, site.policy, 'recorded')
  expect({ ...again, source: 'live' }).toEqual(transcript)
  expect(transcriptText(again).split('\n')[0]).toEndWith(' from recorded evidence')
  expect(transcriptText(transcript).split('\n')[0]).not.toContain('recorded')
  // Older clients recorded fewer fields.
  const { kms_contract: _contract, location: _location, ...older } = structuredClone(evidence)
  Reflect.deleteProperty(older.evidences, 'more')
  const parsed = parseBundle(JSON.stringify(older))
  expect(parsed).toEqual({ ...bundle, kms_contract: null, location: [] })
  const late = { ...bundle, now_ms: bundle.now_ms + 40 * 86_400_000 }
  expect((await judgeEvidence(late, site.policy, 'recorded')).verdict).toBe('failed')
})

test('a connection to another TLS key is refused after verification too, before anything is sent', async () => {
  const venue = await site.connect()
  const attested = generateTls([], Date.now())
  site.swapTls(attested)
  site.asked.length = 0
  await expect(venue.fetch('/info')).rejects.toThrow()
  await venue.fetch('/orders', { method: 'POST', body: 'secret' }).catch(() => undefined)
  const socket = venue.webSocket('/ws')
  await new Promise((resolve) => {
    socket.onerror = resolve
    socket.onclose = resolve
  })
  expect(site.asked).toEqual([])
  // The same machine behind another key: everything is genuine but the connection.
  expect(await refusal(site.connect())).toBe('tls_key')
})

test('evidence cannot write on the terminal that shows its verdict', async () => {
  const { transcript } = await site.connect()
  const check = {
    ...transcript.checks[0]!,
    reason: 'a\u001b[8m',
    values: { id: '\u001b[2J\u009bx\r\nVERIFIED\u202e' },
  }
  const text = transcriptText({ ...transcript, url: 'https://\u001bhost', checks: [check] })
  expect(text).not.toMatch(/[^\x20-\x7e\n]/)
  expect(text).toContain('\\u001b[2J\\u009bx\\u000d\\u000aVERIFIED\\u202e')
})

test('a bundle without a possible date is refused, not a crash', async () => {
  const { evidence } = await site.connect()
  for (const now_ms of [9e15, -1]) {
    expect(() => parseBundle(JSON.stringify({ ...evidence, now_ms }))).toThrow('well formed now_ms')
  }
})

const folder = mkdtempSync(join(tmpdir(), 'tacit-pinned-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const newKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const nameOf = (common_name: string): x509.Name => ({ common_name, organization: 'Test' })
function write(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

function issue(subject: string, subject_key: KeyObject, issuer_key: KeyObject, extensions: x509.Extension[]) {
  return x509.issueCertificate({
    subject: nameOf(subject),
    issuer: nameOf('authority'),
    subject_key,
    issuer_key,
    serial: new Uint8Array(16).fill(0x41),
    not_before_ms: Date.now() - 3_600_000,
    not_after_ms: Date.now() + 86_400_000,
    extensions,
  })
}

const SCRIPT = join(import.meta.dir, '../../kit/verify/pinned_probe.ts')
const node = Bun.which('node')
if (node === null) console.log('skipped in part: there is no Node on this machine')
/** The commands that run the probe: in Bun, and built for Node, whose transport is undici's. */
async function commands(): Promise<string[][]> {
  if (node === null) return [[process.execPath, SCRIPT]]
  await Bun.build({
    entrypoints: [SCRIPT],
    outdir: folder,
    target: 'node',
    packages: 'external',
    throw: true,
  })
  const packages = join(folder, 'node_modules')
  if (!existsSync(packages)) symlinkSync(join(import.meta.dir, '../../../node_modules'), packages)
  renameSync(join(folder, 'pinned_probe.js'), join(folder, 'pinned_probe.mjs'))
  return [
    [process.execPath, SCRIPT],
    [node, join(folder, 'pinned_probe.mjs')],
  ]
}

/** Expects the results of right and other pins from a server, under this environment. */
async function probe(cert: string, key: string, env: Record<string, string>, wanted: object): Promise<void> {
  const other = write('other.pem', generateTls([], Date.now()).cert_pem)
  let seen = 0
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') },
    fetch: (request, one) => {
      seen += 1
      // Sockets have the headers that they are opened with.
      const is_socket = request.headers.get('x-leader-epoch') === '7' && one.upgrade(request)
      return is_socket ? undefined : new Response('answered')
    },
    websocket: { open: (socket) => void socket.send('answered'), message: () => {} },
  })
  for (const command of await commands()) {
    const args = [...command, `https://127.0.0.1:${server.port}`, other]
    const child = Bun.spawn(args, { env: { ...process.env, ...env }, stdout: 'pipe', stderr: 'ignore' })
    seen = 0
    const { before, ...told } = JSON.parse(await new Response(child.stdout).text())
    expect([command[0], told]).toEqual([command[0], wanted])
    // A rejected connection carries no byte of HTTP: the address of a stream contains the token.
    expect(seen).toBe([before, ...Object.values(told)].filter((one) => one === 'answered').length)
  }
  await server.stop(true)
}

const PINNED = {
  'right fetch': 'answered',
  'right socket': 'answered',
  'other fetch': 'refused',
  'other socket': 'refused',
}

test('a self-signed certificate is believed because it is the pinned one, and no other is', async () => {
  const { cert_pem, key_pem } = generateTls([], Date.now())
  const [cert, key] = [write('self.pem', cert_pem), write('self.key', key_pem)]
  for (const env of [{}, { NODE_TLS_REJECT_UNAUTHORIZED: '0' }])
    await probe(cert, key, env, { self_signed: true, ...PINNED })
})

test('under a public authority the key is pinned, too', async () => {
  const [root_key, leaf_key] = [newKey(), newKey()]
  const root = issue('authority', root_key, root_key, [x509.keyUsage(5, 6), x509.basicConstraints(true)])
  const leaf = issue('venue', leaf_key, root_key, [
    x509.basicConstraints(false),
    x509.keyUsage(0),
    x509.serverAuthentication(),
    x509.subjectAlternativeNames(['127.0.0.1']),
  ])
  const cert = write('leaf.pem', pemOfDer(leaf, 'CERTIFICATE'))
  const key = write('leaf.key', leaf_key.export({ type: 'pkcs8', format: 'pem' }).toString())
  const NODE_EXTRA_CA_CERTS = write('root.pem', pemOfDer(root, 'CERTIFICATE'))
  for (const env of [{ NODE_EXTRA_CA_CERTS }, { NODE_EXTRA_CA_CERTS, NODE_TLS_REJECT_UNAUTHORIZED: '0' }])
    await probe(cert, key, env, { self_signed: false, ...PINNED })
  const refused = { 'right fetch': 'refused', 'right socket': 'refused' }
  await probe(cert, key, {}, { self_signed: false, ...PINNED, ...refused })
})
