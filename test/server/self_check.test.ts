/** The self-check: one case for each rule that bars an epoch; a rejected machine proves its identity and does not trade. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Enclave, KEY_PATHS } from '../../enclave/contract'
import type { QuoteEpoch } from '../../engine/chain/client/chain_client'
import { openChain } from '../../engine/chain/open_chain'
import { fromHex, toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import { measuredClaims, parseEventLog, replayRegisters } from '../../protocol/tdx/event_log'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import type { StandInKnobs } from '../../sandbox/enclave/agent'
import { machinePolicy, sandboxEnvironment } from '../../sandbox/environment'
import { announcedOf } from '../../sandbox/open_sandbox'
import { openLog } from '../../server/edge/log'
import { joinProcess } from '../../server/join_process'
import { keepCollateral, MachineUnjudged, type SelfCheckTerms, selfCheck } from '../../server/self_check'
import { readConfig } from '../../server/settings/config'
import { type Machine, olderCollateral, openMachine, openOn } from '../enclave/machine'
import { chainFolder } from '../kit/chain/chain_folder'
import { FILLED_COMPOSE, manifestOf } from '../kit/verify/hostile_manifests'
import {
  forgeLog,
  type Lie,
  type LoggedEvent,
  mrConfigId,
  quoteOfMachine,
  withClaim,
} from '../kit/verify/lying_machine'
import { HAVE_QUOTES, readAnswer, realQuotes } from '../kit/verify/sign_any_quote'

const DAY_MS = 86_400_000
const KMS_ID = 'ab'.repeat(91)
const MANIFEST = manifestOf(FILLED_COMPOSE, { key_provider_id: KMS_ID })
const KMS = withClaim('key-provider', toHex(utf8(JSON.stringify({ name: 'kms', id: KMS_ID }))))

let machine: Machine
let enclave: Enclave
let terms: SelfCheckTerms
beforeAll(async () => {
  machine = await openMachine({}, MANIFEST)
  enclave = await openOn(machine.agent)
  terms = { policy: machinePolicy(machine.agent.root_pem), collect: async () => machine.agent.collateral() }
})
afterAll(async () => {
  await enclave.close()
  await machine.close()
})

type Judged = Pick<Enclave, 'identity' | 'keyProof'>
type Change = Lie & { identity?: Partial<Enclave['identity']>; proof?: Partial<Record<string, string>> }

/** The machine with another log, report or identity, under a genuine signature of the machine over them. */
function machineWith({ log, quote = {}, identity, proof }: Change): Judged {
  return {
    identity: { ...enclave.identity, ...identity },
    async keyProof(of, nonce) {
      const honest = await enclave.keyProof(of, nonce)
      const events = JSON.parse(honest.event_log) as LoggedEvent[]
      const { extended, shown } = log?.(events) ?? { extended: events, shown: events }
      const registers = replayRegisters(parseEventLog(JSON.stringify(extended)))
      const facts = { registers, report_data: fromHex(honest.report_data, 64)! }
      const signed = {
        quote: toHex(quoteOfMachine({ machine }, facts, quote)),
        event_log: JSON.stringify(shown),
      }
      return { ...honest, ...signed, ...proof } as typeof honest
    },
  }
}

async function reasonsOf(judged: Judged, change: Partial<SelfCheckTerms> = {}, now_ms = Date.now()) {
  const own = { enclave: judged, terms: { ...terms, ...change }, data_dir: machine.data_dir, now_ms }
  return (await selfCheck(own)).reasons
}

test('an honest machine gives no reason, itself and signed as the cases below are', async () => {
  expect(await reasonsOf(enclave)).toEqual([])
  expect(await reasonsOf(machineWith({}))).toEqual([])
})

test.each([
  [{ debug: true }, ['the machine is under debug: the host reads its memory (1.4)']],
  [{ wrong_compose_hash: true }, ['the venue states another manifest than it measured (3.1)']],
  [{ revoked_pck: true }, ['a certificate is revoked (1.2)']],
  // Policies decide about these.
  [{ out_of_date: true }, []],
] as [Partial<StandInKnobs>, string[]][])('a machine with %j gives its reason', async (knobs, reasons) => {
  const other = await openMachine(knobs)
  const opened = await openOn(other.agent)
  const own = {
    policy: machinePolicy(other.agent.root_pem),
    collect: async () => other.agent.collateral(),
  }
  expect(await reasonsOf(opened, own)).toEqual(reasons)
  await opened.close()
  await other.close()
})

const inBody =
  (at: number, ...bytes: number[]) =>
  (report: Uint8Array): void =>
    report.set(bytes, at)
const changed =
  (imr: number): NonNullable<Lie['log']> =>
  (events) => {
    const at = events.findIndex((event) => event.imr === imr && (imr < 3 || event.event === 'storage-fs'))
    const shown = events.with(at, { ...events[at]!, digest: 'ab'.repeat(48), event_payload: '00' })
    return { extended: events, shown }
  }
const provider = (text: string) => withClaim('key-provider', toHex(utf8(text)))
/** Form 1 of MRCONFIGID for the manifest's hash, or another one. */
const formOne = (hash: Uint8Array, padding = 0) => {
  const value = new Uint8Array(48).fill(padding, 33)
  value.set([1, ...hash])
  return mrConfigId(value)
}
const OWN_HASH = sha256(utf8(MANIFEST))

const LIES: Record<string, [Change, ...RegExp[]]> = {
  'a flipped bit of the quote': [{ quote: { header: inBody(12, 0) } }, /not from Intel \(1\.2\)/],
  'a quoting enclave under debug': [
    { quote: { qe_report: (report) => report.set([report[48]! | 2], 48) } },
    /quoting enclave is under debug \(1\.2\)/,
  ],
  'another quoting enclave': [
    { quote: { qe_report: (report) => void report.set([9], 128) } },
    /quoting enclave has another signer \(1\.3\)/,
  ],
  'an older TDX module than any known': [{ quote: { body: inBody(0, 1) } }, /below every TCB level \(1\.3\)/],
  'a machine that may be moved': [{ quote: { body: inBody(123, 0x30) } }, /MIGRATABLE is on\) \(1\.4\)/],
  'performance counters': [{ quote: { body: inBody(127, 0x80) } }, /PERFMON is on\) \(1\.4\)/],
  'a TDX module under debug': [
    { quote: { body: inBody(112, 1) } },
    /TDX module has other attributes \(1\.3\)/,
    /such as debugging \(1\.4\)/,
  ],
  'a service TD': [
    { quote: { td_15: new Uint8Array(64).fill(1, 16).fill(6, 0, 1).fill(1, 1, 2).fill(3, 2, 3) } },
    /a service TD is bound to the machine \(1\.4\)/,
  ],
  'a processor feature outside the mask': [
    { quote: { body: inBody(130, 0x07) } },
    /XFAM has bits .* \(1\.5\)/,
  ],
  'a kind of enclave that the quote does not show': [
    { proof: { enclave: 'dstack' } },
    /a root that is not Intel's \(1\.6\)/,
  ],
  'relabelled boot events': [
    { log: (events) => forgeLog(events, 1) },
    /register 3 has an event of another type \(2\.1\)/,
  ],
  'a log without its end': [
    { log: (events) => ({ extended: events.slice(0, -1), shown: events.slice(0, -1) }) },
    /system-ready occurs 0 times \(2\.2\)/,
  ],
  'another app id': [{ identity: { app_id: '44'.repeat(20) } }, /another app id than it measured \(2\.2\)/],
  'another instance': [{ identity: { instance_id: '44'.repeat(20) } }, /another instance id .* \(2\.2\)/],
  'MRCONFIGID of another manifest': [
    { quote: { body: formOne(new Uint8Array(32).fill(8)) } },
    /other facts than the measured ones \(2\.3\)/,
  ],
  'MRCONFIGID of an unknown form': [
    { quote: { body: mrConfigId(new Uint8Array(48).fill(4, 0, 33)) } },
    /unknown form or padding \(2\.3\)/,
  ],
  'MRCONFIGID with padding': [{ quote: { body: formOne(OWN_HASH, 1) } }, /unknown form or padding \(2\.3\)/],
  'a key provider of another name': [{ log: provider('{"name":"none","id":""}') }, /is not pinned \(2\.5\)/],
  'a key provider of another id': [
    { log: provider('{"name":"DEVELOPMENT ONLY","id":"00"}') },
    /is not pinned \(2\.5\)/,
  ],
  'a key provider that is no name and id': [{ log: provider('{}') }, /key provider is malformed \(2\.5\)/],
  'another manifest': [{ identity: { compose_hash: '44'.repeat(32) } }, /another manifest .* \(3\.1\)/],
  'another settlement key': [
    { identity: { tee_pubkey: new Uint8Array(32).fill(3) } },
    /states two settlement keys \(5\.1\)/,
  ],
  'report data of another quote': [
    { proof: { report_data: '00'.repeat(64) } },
    /not the quoted one \(5\.1\)/,
  ],
}
for (const imr of [0, 1, 2, 3])
  LIES[`a changed event of register ${imr}`] = [
    { log: changed(imr) },
    new RegExp(`does not lead to RTMR${imr} \\(2\\.1\\)`),
  ]
for (const [name, [change, ...reasons]] of Object.entries(LIES))
  test(`${name} bars the epoch`, async () => {
    const expected = reasons.map((reason) => expect.stringMatching(reason))
    expect(await reasonsOf(machineWith(change))).toEqual(expected)
  })

test('MRCONFIGID may be absent, and its own form agrees', async () => {
  for (const body of [mrConfigId(), formOne(OWN_HASH)])
    expect(await reasonsOf(machineWith({ quote: { body } }))).toEqual([])
})

test('a quote for another nonce bars the epoch', async () => {
  const late = { ...machineWith({}), keyProof: () => enclave.keyProof('settlement', '5a'.repeat(32)) }
  expect(await reasonsOf(late)).toEqual(['report_data is not this nonce and the settlement key (5.1)'])
})

test('in production the manifest is linted, and the KMS that it names is the measured one', async () => {
  const { roots_pem } = machinePolicy(machine.agent.root_pem)
  const { kind: _, ...identity } = enclave.identity
  const judge = (change: Change) => {
    const stated = { ...identity, kind: 'dstack' as const, ...change.identity }
    return reasonsOf(machineWith({ ...change, identity: stated, proof: { enclave: 'development' } }), {
      policy: { roots_pem },
    })
  }
  expect(await judge({ log: KMS })).toEqual([])
  for (const text of [
    { name: 'kms', id: `${KMS_ID}00` },
    { name: 'local-sgx', id: KMS_ID },
  ])
    expect(await judge({ log: provider(JSON.stringify(text)) })).toEqual([
      `key provider ${JSON.stringify(text)} is not pinned (2.5)`,
    ])
  const app_compose = manifestOf(FILLED_COMPOSE)
  expect(await judge({ log: KMS, identity: { app_compose } })).toEqual([
    'the manifest text is not the measured one (3.2)',
  ])
})

test('a manifest that the linter rejects bars the epoch', async () => {
  const hostile = manifestOf(FILLED_COMPOSE, { pre_launch_script: 'sh /data/any.sh' })
  const other = await openMachine({}, hostile)
  const opened = await openOn(other.agent)
  const stated: Judged = {
    identity: { ...opened.identity, kind: 'dstack' },
    keyProof: (of, nonce) => opened.keyProof(of, nonce),
  }
  const policy = machinePolicy(other.agent.root_pem)
  const [reason, ...more] = await reasonsOf(stated, { policy, collect: async () => other.agent.collateral() })
  expect(reason).toMatch(/pre_launch_script.*\(3\.2\)/)
  expect(more).toEqual([])
  await opened.close()
  await other.close()
})

test('collateral that is absent or not valid says nothing about the machine', async () => {
  const stored = join(machine.data_dir, 'collateral.json')
  const collateral = machine.agent.collateral()
  const silent = { collect: () => Promise.reject(new Error('the service did not answer')) }
  const outcome = (change: Partial<SelfCheckTerms>, now_ms?: number) =>
    reasonsOf(enclave, change, now_ms).catch((error: unknown) => {
      expect(error).toBeInstanceOf(MachineUnjudged)
      return (error as Error).message
    })
  rmSync(stored, { force: true })
  expect(await outcome(silent)).toContain('the service did not answer')
  for (const text of ['{', 'null', '{}', '{"tcb_info":1}']) {
    writeFileSync(stored, text)
    expect(await outcome(silent)).toContain('the service did not answer')
  }
  expect(await outcome({ collect: async () => ({ ...collateral, pck_crl: '00' }) })).toBeString()
  expect(readFileSync(stored, 'utf8')).toBe('{"tcb_info":1}')
  expect(await outcome({ collect: async () => collateral }, Date.now() - DAY_MS)).toContain('future')

  expect(await outcome({ collect: async () => collateral })).toEqual([])
  expect(JSON.parse(readFileSync(stored, 'utf8'))).toEqual(collateral)
  expect(await outcome(silent)).toEqual([])
  const late = await outcome(silent, Date.now() + 31 * DAY_MS)
  expect(late).toMatch(/has expired.*the service did not answer/)
  // Garbage of a service is no reason to stop a start that the stored collateral allows.
  expect(await outcome({ collect: async () => ({ ...collateral, pck_crl: '00' }) })).toEqual([])
  expect(JSON.parse(readFileSync(stored, 'utf8'))).toEqual(collateral)

  // A file in its place on the disk neither ends the process nor bars the machine.
  writeFileSync(stored, '{"tcb_info":{"toString":null,"valueOf":null}}')
  expect(await outcome(silent)).toContain('the service did not answer')
  rmSync(stored)
  mkdirSync(stored)
  expect(await outcome({ collect: async () => collateral })).toEqual([])
  expect(existsSync(`${stored}.new`)).toBe(false)
  rmSync(stored, { recursive: true })
})

test('a reason from collateral that is stored bars the epoch like one that was fetched', async () => {
  await reasonsOf(enclave)
  const silent = { collect: () => Promise.reject(new Error('the service did not answer')) }
  const change = machineWith({ quote: { body: inBody(120, 1) } })
  expect(await reasonsOf(change, silent)).toEqual([expect.stringContaining('under debug')])
})

test.skipIf(!HAVE_QUOTES)('a real machine is genuine under its real collateral and Intel', async () => {
  const { collateral, now_ms } = realQuotes().find(({ name }) => name === 'dstack 0.5')!
  const answer = readAnswer('dstack-0.5-90c06f')
  const claims = measuredClaims(parseEventLog(answer.event_log))
  const judge = (change: Partial<Enclave['identity']>, quote = answer.quote) => {
    const identity = {
      app_id: toHex(claims.app_id),
      instance_id: toHex(claims.instance_id),
      compose_hash: toHex(claims.compose_hash),
      app_compose: '{}',
      kind: 'dstack' as const,
      tee_pubkey: new Uint8Array(32),
      ...change,
    }
    const proof = { ...answer, quote, tee_pubkey: '1'.repeat(32), enclave: 'dstack' as const }
    const real = { identity, keyProof: async () => proof }
    return reasonsOf(real, { policy: {}, collect: async () => collateral }, now_ms)
  }
  // Of another venue: its manifest's text and settlement key are not ours, and nothing else bars it.
  const foreign = [
    'the manifest text is not the measured one (3.2)',
    'report_data is not this nonce and the settlement key (5.1)',
  ]
  expect(await judge({})).toEqual(foreign)
  expect(await judge({ app_id: '44'.repeat(20) })).toEqual([
    'the venue states another app id than it measured (2.2)',
    foreign[1]!,
  ])
  const flipped = answer.quote.replace(/^(.{400})(.)/, (_, head, digit) => head + (digit === '0' ? '1' : '0'))
  expect(await judge({}, flipped)).toEqual(['the quote is not signed by its attestation key (1.2)'])
})

const PROGRAM = new URL('../../program/vault.so', import.meta.url).pathname
const SLOT_MS = 10

/** A whole process on the machine, with a separate chain. */
async function startOn(machine: Machine, collateral = machine.agent.collateral()) {
  const folder = chainFolder()
  const chain = await openEmbeddedChain({ data_dir: `${folder.dir}/chain`, slot_ms: SLOT_MS })
  const { config, faults } = readConfig(
    await sandboxEnvironment({
      TACIT_DATA_DIR: folder.dir,
      TACIT_LISTEN: '127.0.0.1:0',
      TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    }),
  )
  if (faults !== undefined) throw new Error(faults.join())
  const lines: string[] = []
  const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }
  const running = await joinProcess({
    config: { ...config, dstack_socket: machine.agent.socket },
    version: '0.0.0',
    clock,
    log: openLog((line) => lines.push(line), clock.unixMs),
    fatal: (error) => expect.unreachable(error.message),
    drain: () => {},
    following: () => {},
    self_check: {
      policy: machinePolicy(machine.agent.root_pem),
      collect: async () => collateral,
    },
    async openChain(enclave, hash) {
      const { settlement_seed } = enclave
      const fee_seed = await enclave.deriveKey(KEY_PATHS.fees)
      const authority_seed = await enclave.deriveKey(KEY_PATHS.epoch_authority)
      const terms = { announced: await announcedOf(enclave), fee_payer: publicKeyOf(fee_seed) }
      const program_id = await makeGenesis(chain, { program_path: PROGRAM, ...terms })
      const { monotonicMs } = clock
      const endpoint = { rpc_urls: [chain.url], program_id, settlement_seed, authority_seed, fee_seed }
      const quoteEpoch: QuoteEpoch = (bound) => enclave.quoteEpoch(bound)
      return openChain({ ...endpoint, quoteEpoch, hash, slot_ms: SLOT_MS, monotonicMs })
    },
  })
  const url = `https://127.0.0.1:${running.listener.port}`
  const get = async (path: string) =>
    (await fetch(url + path, { tls: { ca: running.enclave.tls.cert_pem } })).json() as Promise<unknown>
  const stop = async () => {
    await running.stop()
    await chain.close()
    folder.remove()
  }
  return { get, lines, stop }
}

test.each([
  [{ debug: true }, 'the machine is under debug'],
  [{ wrong_compose_hash: true }, 'the venue states another manifest than it measured'],
  [{ revoked_pck: true }, 'a certificate is revoked'],
])(
  'a machine with %j opens no epoch, is not ready, and says why',
  async (knobs, reason) => {
    const machine = await openMachine(knobs)
    const { get, lines, stop } = await startOn(machine)
    try {
      const status = (await get('/system/status')) as { reasons: string[] }
      expect(status).toMatchObject({ ready: false, matching: 'stopped' })
      expect(status.reasons.join()).toContain(`opens no epoch: ${reason}`)
      expect(await get('/info')).toMatchObject({ epoch: 0 })
      expect(lines.join('\n')).toContain('not_trading')
    } finally {
      await stop()
      await machine.close()
    }
  },
  120_000,
)

test('a genuine machine opens its epoch and trades', async () => {
  const machine = await openMachine()
  const { get, lines, stop } = await startOn(machine)
  try {
    expect(await get('/system/status')).toMatchObject({ ready: true, matching: 'running', reasons: [] })
    expect(await get('/info')).toMatchObject({ epoch: 1 })
    expect(lines.join('\n')).not.toContain('not_trading')
  } finally {
    await stop()
    await machine.close()
  }
}, 120_000)

test.each([
  [22, []],
  [24, ['collateral_ends']],
])(
  'with collateral that is %d days old it trades, and warns within the last week',
  async (days, words) => {
    const machine = await openMachine()
    const { get, stop } = await startOn(machine, olderCollateral(machine, days))
    try {
      const status = (await get('/system/status')) as { ready: boolean; reasons: string[] }
      expect([status.ready, status.reasons.map((reason) => reason.split(':')[0]!)]).toEqual([true, words])
    } finally {
      await stop()
      await machine.close()
    }
  },
  120_000,
)

test('the kept collateral is renewed once the service answers, and its end is warned of until then', async () => {
  const machine = await openMachine()
  const enclave = await openOn(machine.agent)
  const old = olderCollateral(machine, 24)
  const fresh = machine.agent.collateral()
  let answer = () => Promise.resolve(old)
  const terms = { policy: machinePolicy(machine.agent.root_pem), collect: () => answer() }
  const lines: string[] = []
  let later_ms = 0
  const clock = { unixMs: () => Date.now() + later_ms }
  const judge = () => selfCheck({ enclave, terms, data_dir: machine.data_dir, now_ms: clock.unixMs() })
  const first = await judge()
  expect(first.reasons).toEqual([])
  const log = openLog((line) => lines.push(line), clock.unixMs)
  const kept = keepCollateral({ first, judge, clock, log, every_ms: 10 })
  const until = async (holds: () => boolean) => {
    while (!holds()) await Bun.sleep(5)
  }
  try {
    expect(Math.round((kept.endsMs() - Date.now()) / DAY_MS)).toBe(6)
    expect(kept.isEnding()).toBe(true)
    answer = () => Promise.reject(new Error('the service did not answer'))
    await Bun.sleep(50)
    expect([kept.isEnding(), lines]).toEqual([true, []])
    // Beyond its end nothing is known about the machine.
    later_ms = 7 * DAY_MS
    await until(() => lines.length > 0)
    expect(lines[0]).toMatch(/"machine_unjudged".*has expired.*the service did not answer/)
    later_ms = 0
    answer = () => Promise.resolve(fresh)
    await until(() => !kept.isEnding())
    expect(Math.round((kept.endsMs() - Date.now()) / DAY_MS)).toBe(30)
    // The next start finds the renewed collateral.
    answer = () => Promise.reject(new Error('the service did not answer'))
    expect((await judge()).valid_until_ms).toBe(kept.endsMs())
  } finally {
    kept.stop()
    await enclave.close()
    await machine.close()
  }
}, 120_000)
