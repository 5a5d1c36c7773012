/** Input of any form, depth or type ends in a verdict or a typed error of the verifier, and evidence stays writable. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect } from '../../../client/connect'
import { collectChain } from '../../../client/verify/collect/collect_chain'
import { collectLocation } from '../../../client/verify/collect/collect_evidence'
import {
  type EvidenceBundle,
  identityOf,
  isAccepted,
  judgeEvidence,
  parseBundle,
  parsePolicy,
  Refused,
  verifyReceipt,
} from '../../../client/verify/index'
import { lintManifest } from '../../../client/verify/lint_manifest'
import { CodecError } from '../../../protocol/byte_stream'
import { said } from '../../kit/said'
import { openPinnedVenue, type PinnedVenue } from '../../kit/verify/pinned_venue'

const TACIT = join(import.meta.dir, '../../../client/cli/tacit.ts')
const DEPTH = 100_000
const DEEP = {
  object: `${'{"a":'.repeat(DEPTH)}1${'}'.repeat(DEPTH)}`,
  list: '['.repeat(DEPTH) + ']'.repeat(DEPTH),
}
const MARK = '@deep@'
/** The JSON of the value with a deep document in the place of the mark. */
const deepened = (value: unknown, deep: string) => JSON.stringify(value).replace(`"${MARK}"`, deep)

const folder = mkdtempSync(join(tmpdir(), 'tacit-hostile-'))
let venue: PinnedVenue
let honest: EvidenceBundle
beforeAll(async () => {
  venue = await openPinnedVenue()
  venue.answerAs()
  const { app_compose, policy, site } = venue
  honest = (await connect(site.url, policy, { collateral: site.machine.agent.collateral(), app_compose }))
    .evidence
})
afterAll(async () => {
  await venue.close()
  rmSync(folder, { recursive: true, force: true })
})

/** The value with the change at each member, and with one more member in each object. */
function* changed(value: unknown, change: unknown): Generator<{ at: string; value: unknown }> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield { at: '+', value: { ...value, more_members: change } }
  for (const [key, member] of Object.entries(value)) {
    const put = (inner: unknown) =>
      Array.isArray(value) ? value.with(Number(key), inner) : { ...value, [key]: inner }
    yield { at: key, value: put(change) }
    for (const inner of changed(member, change)) yield { at: `${key}.${inner.at}`, value: put(inner.value) }
  }
}

/** Verdict, or name of a typed error; any other error is thrown on. */
async function outcomeOf(run: () => unknown): Promise<string> {
  try {
    const result = (await run()) as { verdict?: string } | undefined
    return result?.verdict ?? 'accepted'
  } catch (error) {
    if (error instanceof Refused || error instanceof CodecError) return 'rejected'
    throw error
  }
}

async function judged(text: string): Promise<string> {
  const bundle = parseBundle(text)
  expect(JSON.stringify(bundle).length).toBeLessThan(10_000_000)
  const transcript = await judgeEvidence(bundle, venue.policy, 'recorded')
  for (const { number, reason } of transcript.checks) expect(`${number} ${reason}`).not.toMatch(/unexpected/)
  return transcript.verdict
}

test('a deep member of a bundle is rejected or ignored, and never part of the evidence', async () => {
  for (const deep of Object.values(DEEP))
    for (const { at, value } of changed(honest, MARK)) {
      const outcome = await outcomeOf(async () => ({ verdict: await judged(deepened(value, deep)) }))
      const ignored = at.endsWith('+') && at !== 'evidences.more.+' && at !== 'collateral.+'
      if (ignored) expect([at, outcome]).toEqual([at, 'verified'])
      else expect([at, ['rejected', 'verified'].includes(outcome)]).toEqual([at, true])
      if (outcome === 'verified') expect([at, ignored || at === 'missing']).toEqual([at, true])
    }
}, 180_000)

test('a deep document in a text of the evidence fails its check', async () => {
  const texts: ((text: string) => unknown)[] = [
    (text) => ({ ...honest, app_compose: text }),
    ...(['event_log', 'vm_config'] as const).map((name) => (text: string) => ({
      ...honest,
      attestation: { ...honest.attestation, [name]: text },
    })),
    ...(['quote_json', 'sha256sum_txt'] as const).map((name) => (text: string) => ({
      ...honest,
      evidences: { ...honest.evidences, [name]: text },
    })),
    ...(['tcb_info', 'qe_identity'] as const).map((name) => (text: string) => ({
      ...honest,
      collateral: { ...honest.collateral, [name]: text },
    })),
  ]
  const outcomes: string[] = []
  for (const deep of Object.values(DEEP))
    for (const bundleOf of texts) outcomes.push(await judged(JSON.stringify(bundleOf(deep))))
  // No check of this policy reads the hardware description of a machine whose registers are pinned.
  expect([...new Set(outcomes)].sort()).toEqual(['failed', 'verified'])
  expect(outcomes.filter((verdict) => verdict === 'verified').length).toBe(2)
  for (const deep of Object.values(DEEP)) {
    expect(lintManifest(deep, []).faults.length).toBeGreaterThan(0)
    expect(lintManifest(`{"docker_compose_file":${deep}}`, []).faults.length).toBeGreaterThan(0)
  }
})

test('a deep policy is rejected', async () => {
  for (const deep of Object.values(DEEP)) {
    expect(await outcomeOf(() => parsePolicy(deep))).toBe('rejected')
    for (const { at, value } of changed(venue.policy, MARK))
      expect([at, await outcomeOf(() => parsePolicy(deepened(value, deep)))]).toEqual([at, 'rejected'])
  }
}, 180_000)

test('a deep answer of a node or an authority is none', async () => {
  const { chain, location } = venue.policy
  let answer = ''
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response(answer) })
  const url = server.url.origin
  const authorities = location!.authorities.map((one) => ('url' in one ? { ...one, url } : one))
  const { quote } = honest.attestation
  const [{ body, signature, log }] = honest.location.filter((one) => one.log !== undefined) as [
    EvidenceBundle['location'][number],
  ]
  try {
    for (const deep of Object.values(DEEP)) {
      for (const result of [
        deep,
        `{"result":${deep}}`,
        `{"result":{"context":{"slot":1},"value":${deep}}}`,
      ]) {
        answer = result
        expect(await outcomeOf(() => collectChain({ ...chain!, rpc_url: url }, 5_000))).toBe('rejected')
      }
      for (const statement of [
        { body: MARK, signature },
        { body, signature, log: MARK },
      ]) {
        answer = deepened(statement, deep)
        const { answers, silent } = await collectLocation(authorities, quote, '', 5_000)
        expect([answers, silent.length]).toEqual([[], authorities.length])
      }
      // Shallow enough for the bound of an answer, and no part of the statement.
      answer = deepened(
        { body, signature, log: { ...log, more: MARK }, more: 1 },
        '['.repeat(500) + ']'.repeat(500),
      )
      const { answers } = await collectLocation(authorities, quote, '', 5_000)
      for (const one of answers) expect(one).toEqual({ authority: one.authority, body, signature, log: log! })
    }
  } finally {
    await server.stop(true)
  }
})

test('tacit verify ends with a code and a reason for deep documents, and keeps the evidence', async () => {
  const { site, policy, app_compose } = venue
  const write = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  const verify = (...args: string[]) =>
    said(Bun.spawn([process.execPath, TACIT, 'verify', ...args], { stdout: 'pipe', stderr: 'pipe' }))
  const policy_file = write('policy.json', JSON.stringify(policy))
  const out = join(folder, 'bundle.json')
  const live = [
    ...[
      site.url,
      '--policy',
      policy_file,
      '--bundle',
      out,
      '--manifest',
      write('manifest.json', app_compose),
    ],
    ...['--collateral', write('collateral.json', JSON.stringify(site.machine.agent.collateral()))],
  ]
  const info = JSON.parse(await site.answers.get('/info')!(undefined)) as object
  site.answers.set('/info', () => deepened({ ...info, more: MARK }, DEEP.object))
  const accepted = await verify(...live)
  expect([accepted.code, accepted.error]).toEqual([0, ''])
  expect((await verify('--offline', out, '--policy', policy_file)).code).toBe(0)
  site.answers.set('/info', () => deepened({ ...info, epoch: MARK }, DEEP.list))
  const unread = await verify(...live)
  expect([unread.code, unread.error.trim()]).toEqual([3, 'the venue answered in another form'])
  site.restore()
  venue.answerAs()
  const quote_json = site.answers.get('/evidences/quote.json')!
  site.answers.set('/evidences/quote.json', () => DEEP.object)
  const failed = await verify(...live)
  expect([failed.code, failed.error]).toEqual([1, ''])
  expect(failed.out).toMatch(/^5\.4 FAIL .*quote\.json holds no quote$/m)
  site.answers.set('/evidences/quote.json', quote_json)
  const given: [file: string, args: (path: string) => string[], reason: string][] = [
    [deepened({ ...policy, kms: MARK }, DEEP.object), (path) => [site.url, '--policy', path], 'the policy'],
    [DEEP.list, (path) => [site.url, '--policy', path], 'the policy is not an object'],
    [DEEP.list, (path) => ['--offline', path], "this is not a bundle of 'verify --bundle'"],
    [
      readFileSync(out, 'utf8').replace(/"kms_allowed": [a-z]+/, () => `"kms_allowed": ${DEEP.object}`),
      (path) => ['--offline', path],
      'an answer has no well formed kms_allowed',
    ],
    [DEEP.object, (path) => [site.url, '--collateral', path], 'the collateral has no well formed a'],
  ]
  for (const [content, args, reason] of given) {
    const { code, error } = await verify(...args(write('deep.json', content)))
    expect([code, error.startsWith(reason)]).toEqual([64, true])
  }
}, 180_000)

const cyclic: Record<string, unknown> = {}
cyclic['self'] = cyclic
const HOSTILE: unknown[] = [
  ...[undefined, null, true, 0, -1, 0.5, Number.NaN, 2 ** 53, 2 ** 64, 1n, '', 'x', 'x'.repeat(2 ** 20)],
  ...[Symbol('x'), () => undefined, [], {}, [[]], Array(5), Array(2 ** 20).fill('00'), Object.create(null)],
  ...[
    new Map(),
    new Date(Number.NaN),
    new Uint8Array(32),
    cyclic,
    JSON.parse(DEEP.object),
    JSON.parse(DEEP.list),
  ],
]

test('a value of any type is rejected by each public function of the verifier', async () => {
  const { attestation } = honest
  const identity = identityOf({ attestation })
  const hex = '00'.repeat(32)
  const receipt = {
    epoch: Number(identity.epoch),
    seq: 1,
    head: hex,
    root: hex,
    index: 0,
    path: [hex],
    signature: '00'.repeat(64),
  }
  const functions: Record<string, [run: (value: never) => unknown, given: unknown]> = {
    parsePolicy: [parsePolicy, 'x'],
    parseBundle: [parseBundle, 'x'],
    'judgeEvidence of a policy': [(policy) => judgeEvidence(honest, policy, 'recorded'), {}],
    'judgeEvidence of a bundle': [
      (bundle) => judgeEvidence(bundle, venue.policy, 'recorded'),
      { ...honest, format: 'x' },
    ],
    identityOf: [identityOf, { attestation: { binding: { certificate: 'x', statement_key: 'x' } } }],
    verifyReceipt: [(given) => verifyReceipt(given, identity, new Uint8Array(1)), receipt],
  }
  for (const [name, [run, given]] of Object.entries(functions)) {
    expect([name, await outcomeOf(() => run(given as never))]).toEqual([name, 'rejected'])
    for (const [index, hostile] of HOSTILE.entries()) {
      expect([name, index, await outcomeOf(() => run(hostile as never))]).toEqual([name, index, 'rejected'])
      for (const { at, value } of changed(given, hostile))
        expect([name, at, index, await outcomeOf(() => run(value as never))]).toEqual([
          name,
          at,
          index,
          'rejected',
        ])
    }
  }
}, 180_000)

test('a hostile member of a bundle is rejected or judged', async () => {
  for (const hostile of HOSTILE)
    for (const name of Object.keys(honest)) {
      const bundle = { ...honest, [name]: hostile } as never
      const outcome = await outcomeOf(() => judgeEvidence(bundle, venue.policy, 'recorded'))
      expect([name, ['rejected', 'failed', 'incomplete', 'verified'].includes(outcome)]).toEqual([name, true])
    }
}, 180_000)

type Path = string[]
function* paths(value: unknown, at: Path = []): Generator<Path> {
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    yield [...at, key]
    yield* paths(inner, [...at, key])
  }
}
function holderOf(bundle: unknown, path: Path): Record<string, unknown> {
  const inner = path.slice(0, -1).reduce((value, key) => (value as Record<string, unknown>)[key], bundle)
  return inner as Record<string, unknown>
}

/** Values of JSON. */
const WRONG = [
  undefined,
  null,
  -1,
  1.5,
  'x',
  '',
  '00',
  true,
  [],
  {},
  [{}],
  '\ud800',
  'constructor',
  '__proto__',
]
/** No check of this policy reads them: labels, defaults for older bundles, and a program without a pinned hash. */
const UNREAD = [
  'url',
  'info.tacit_version',
  'attestation.vm_config',
  'attestation.enclave',
  'evidences.more',
  'chain.program.data',
  'chain.program_data.sha256',
  'missing',
  // A bundle of before there were nodes that follow has none.
  'leader',
]

/** Some 1,500 verifications. */
const RUN_MS_MAX = 60_000

test(
  'no field of a bundle crashes the verifier or is believed when it is wrong',
  async () => {
    const believed = new Set<string>()
    for (const path of paths(honest))
      for (const wrong of WRONG) {
        const bundle = structuredClone(honest)
        const holder = holderOf(bundle, path)
        if (JSON.stringify(holder[path.at(-1)!]) === JSON.stringify(wrong)) continue
        holder[path.at(-1)!] = wrong
        try {
          const transcript = await judgeEvidence(
            parseBundle(JSON.stringify(bundle)),
            venue.policy,
            'recorded',
          )
          const label = `${path.join('.')} ${JSON.stringify(wrong)}`
          for (const { number, reason } of transcript.checks)
            expect(`${label} ${number}: ${reason}`).not.toMatch(/: unexpected/)
          if (isAccepted(transcript)) believed.add(path.join('.'))
        } catch (error) {
          expect(error).toBeInstanceOf(Refused)
        }
      }
    expect([...believed].sort()).toEqual(UNREAD.toSorted())
  },
  RUN_MS_MAX,
)
