/** Machines that measured something else: the log's content shows it, and the OS image's own document is recomputed. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { MEMORY_RANGES_MAX } from '../../../client/limits'
import { checkOsImage } from '../../../client/verify/checks/quote'
import type { VerificationCase } from '../../../client/verify/checks/verification_case'
import type { EvidenceBundle } from '../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import {
  decodeCborMap,
  type ImageDocument,
  isKnownMemorySize,
  readImageDocument,
  requireImage,
  tdHobDigest,
} from '../../../client/verify/os_image'
import type { SkipReason, VerificationPolicy } from '../../../client/verify/policy'
import type { Check, CheckName } from '../../../client/verify/transcript'
import { concatBytes, fromAnyHex, fromHex, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { parseEventLog, RUNTIME_EVENT_TYPE, replayRegisters } from '../../../protocol/tdx/event_log'
import { parseQuote } from '../../../protocol/tdx/quote'
import { FILLED_COMPOSE, manifestOf } from '../../kit/verify/hostile_manifests'
import { forgeLog, quoteOfMachine } from '../../kit/verify/lying_machine'
import { type Changes, HAVE_QUOTES, readAnswer } from '../../kit/verify/sign_any_quote'
import { changedPolicy, openSite, type Site } from '../../kit/verify/site'

type Logged = { imr: number; event_type: number; digest: string; event: string; event_payload: string }

let site: Site
let honest: EvidenceBundle
beforeAll(async () => {
  site = await openSite()
  honest = (await site.connect()).evidence
})
afterAll(() => site.close())

const runtime = (event: string, payload: Uint8Array): Logged => ({
  imr: 3,
  event_type: RUNTIME_EVENT_TYPE,
  digest: '',
  event,
  event_payload: toHex(payload),
})

/** The honest evidence with another event log and a genuine quote over exactly that log. */
function measuredAs(
  change: (events: Logged[]) => void,
  mr_config_id?: Uint8Array,
  more: Changes = {},
): EvidenceBundle {
  const events = JSON.parse(honest.attestation.event_log) as Logged[]
  change(events)
  const event_log = JSON.stringify(events)
  const registers = replayRegisters(parseEventLog(event_log))
  const report_data = fromHex(honest.attestation.report_data, 64)!
  const body = (report: Uint8Array) => mr_config_id && report.set(mr_config_id, 184)
  const quote = quoteOfMachine(site, { registers, report_data }, { body, ...more })
  return { ...honest, attestation: { ...honest.attestation, event_log, quote: toHex(quote) } }
}

async function checkOf(
  name: CheckName,
  bundle: EvidenceBundle,
  change: Partial<VerificationPolicy> = {},
): Promise<Check> {
  const { checks } = await judgeEvidence(bundle, changedPolicy(site.policy, change), 'recorded')
  return checks.find((check) => check.name === name)!
}

test('the same log under a matching quote passes', async () => {
  const bundle = measuredAs(() => {})
  for (const name of ['registers', 'claims', 'mr_config_id', 'compose_hash', 'evidence'] as const)
    expect((await checkOf(name, bundle)).result).toBe('pass')
})

test('TDX versions in use below the minimum of the vault are refused, though those at launch reach it', async () => {
  const { tee_tcb_svn } = parseQuote(fromAnyHex(honest.attestation.quote)!).report
  const used = concatBytes(tee_tcb_svn, new Uint8Array(48))
  const announced = (td_15: Uint8Array) =>
    checkOf(
      'announced',
      measuredAs(() => {}, undefined, { td_15 }),
    )
  expect(await announced(used)).toMatchObject({ result: 'pass' })
  const reason = 'this machine is below the tee_tcb_minimum of the vault'
  expect(await announced(used.with(2, used[2]! - 1))).toMatchObject({ result: 'fail', reason })
})

describe('claims', () => {
  const other = new Uint8Array(32).fill(8)
  const find = (events: Logged[], name: string) => events.findIndex((event) => event.event === name)
  const cases: Record<string, [change: (events: Logged[]) => void, reason: string]> = {
    'a second manifest after the machine was ready': [
      (events) => events.push(runtime('compose-hash', other)),
      'compose-hash occurs 2 times',
    ],
    'a second manifest before it': [
      (events) => events.splice(find(events, 'compose-hash'), 0, runtime('compose-hash', other)),
      'compose-hash occurs 2 times',
    ],
    'a manifest only after the machine was ready': [
      (events) => events.push(...events.splice(find(events, 'compose-hash'), 1)),
      'compose-hash follows system-ready',
    ],
    'no manifest': [
      (events) => events.splice(find(events, 'compose-hash'), 1),
      'compose-hash occurs 0 times',
    ],
    'a machine that never was ready': [
      (events) => events.splice(find(events, 'system-ready'), 1),
      'system-ready occurs 0 times',
    ],
    'a machine that was ready twice': [
      (events) => events.push(runtime('system-ready', new Uint8Array())),
      'system-ready occurs 2 times',
    ],
    'a second app': [(events) => events.push(runtime('app-id', new Uint8Array(20))), 'app-id occurs 2 times'],
    'a manifest hash of another width': [
      (events) => Object.assign(events[find(events, 'compose-hash')]!, { event_payload: '00' }),
      'compose-hash has another width',
    ],
  }
  for (const [name, [change, reason]] of Object.entries(cases))
    test(`${name} is refused, though the registers agree`, async () => {
      const bundle = measuredAs(change)
      expect((await checkOf('registers', bundle)).result).toBe('pass')
      expect(await checkOf('claims', bundle)).toMatchObject({ result: 'fail', reason })
      expect((await checkOf('compose_hash', bundle)).result).toBe('skipped')
    })
  test('measurements of the application after it was ready change nothing', async () => {
    const bundle = measuredAs((events) => events.push(runtime('my-event', other)))
    expect((await checkOf('claims', bundle)).result).toBe('pass')
  })
})

describe('relabelled boot events', () => {
  /** A machine of another build that emits the pinned build's claims after boot; every register agrees. */
  function relabelled(type: number): EvidenceBundle {
    const { extended, shown } = forgeLog(JSON.parse(honest.attestation.event_log), type)
    const bundle = measuredAs((events) => events.splice(0, events.length, ...extended), new Uint8Array(48))
    return { ...bundle, attestation: { ...bundle.attestation, event_log: JSON.stringify(shown) } }
  }
  test('the checks of the event log refuse them, and nothing is read from the log', async () => {
    for (const type of [0, 1, 0x8000_0007]) {
      const reason = 'event 9: register 3 has an event of another type'
      expect(await checkOf('registers', relabelled(type))).toMatchObject({ result: 'fail', reason })
      for (const name of ['claims', 'mr_config_id', 'compose_hash', 'binding'] as const)
        expect((await checkOf(name, relabelled(type))).result).toBe('skipped')
    }
  })
  test('a page, which sees no TLS key, refuses them too, and no permitted skip helps', async () => {
    const hidden: SkipReason[] = ['mr_config_id_absent', 'tls_key_hidden']
    const permitted_skips = [...site.policy.permitted_skips, ...hidden]
    const bundle = { ...relabelled(1), spki_sha256: null }
    const policy = changedPolicy(site.policy, { permitted_skips })
    expect((await judgeEvidence(bundle, policy, 'live')).verdict).toBe('failed')
  })
})

describe('MRCONFIGID', () => {
  const judged = (value: Uint8Array) =>
    checkOf(
      'mr_config_id',
      measuredAs(() => {}, value),
    )
  test('another manifest in it is refused', async () => {
    const value = new Uint8Array(48).fill(8, 1, 33)
    value[0] = 1
    expect(await judged(value)).toMatchObject({
      result: 'fail',
      reason: expect.stringMatching(/other facts/),
    })
  })
  test('none is skipped, never passed', async () => {
    expect((await judged(new Uint8Array(48))).result).toBe('skipped')
  })
  test('an unknown form, or padding that is not zero, fails and is no skip', async () => {
    const padded = new Uint8Array(48)
    padded[0] = 1
    padded.set(fromAnyHex(site.machine.agent.compose_hash)!, 1)
    expect((await judged(padded)).result).toBe('pass')
    const values = [new Uint8Array(48).fill(2), padded.with(47, 1), padded.with(33, 1)]
    for (const form of [0, 4, 255]) values.push(padded.with(0, form))
    for (const value of values)
      expect(await judged(value)).toMatchObject({
        result: 'fail',
        reason: expect.stringMatching(/unknown form/),
      })
  })
  test('the forms that hash facts outside the quote fail when the facts are others', async () => {
    for (const form of [2, 3]) {
      const value = new Uint8Array(48).fill(8, 1, 33)
      value[0] = form
      expect(await judged(value)).toMatchObject({
        result: 'fail',
        reason: expect.stringMatching(/other facts/),
      })
    }
  })
})

describe('the manifest text', () => {
  const SECRETS = { environment_names: ['TACIT_FEE_ANCHOR'] }
  const text = manifestOf(FILLED_COMPOSE)
  const measured = (manifest: string) =>
    measuredAs((events) => {
      const at = events.findIndex((event) => event.event === 'compose-hash')
      events[at] = runtime('compose-hash', sha256(utf8(manifest)))
    })
  test('the measured, clean text passes', async () => {
    expect((await checkOf('manifest', { ...measured(text), app_compose: text }, SECRETS)).result).toBe('pass')
  })
  test('a text that was not measured, or hides something, is refused', async () => {
    const other = { ...measured(text), app_compose: `${text} ` }
    expect((await checkOf('manifest', other)).reason).toMatch(/not the measured one/)
    const loud = manifestOf(FILLED_COMPOSE, { public_logs: true })
    const judged = await checkOf('manifest', { ...measured(loud), app_compose: loud }, SECRETS)
    expect(judged.reason).toBe('public_logs: must be false')
  })
})

describe('the key provider', () => {
  const provider = { name: 'kms', id: '00' }
  const under = (measured: object) =>
    measuredAs((events) => {
      const at = events.findIndex((event) => event.event === 'key-provider')
      events[at] = runtime('key-provider', utf8(JSON.stringify(measured)))
    })
  const kms = { rpc_url: 'http://127.0.0.1:1' }
  const pins = () => ({ kms, app_ids: [honest.info.app_id], key_providers: [provider] })
  test('a KMS without a contract to ask is skipped for its reason, other keys for theirs', async () => {
    expect((await checkOf('kms', under(provider))).reason_code).toBe('kms_without_contract')
    expect((await checkOf('kms', honest)).reason_code).toBe('keys_without_kms')
  })
  test('a contract that allows the manifest passes; one that does not, or cannot be read, is refused', async () => {
    const judged = (kms_allowed: boolean | null) =>
      checkOf('kms', { ...under(provider), kms_allowed }, pins())
    expect((await judged(true)).result).toBe('pass')
    expect((await judged(false)).reason).toMatch(/does not allow/)
    expect((await judged(null)).reason).toMatch(/could not be read/)
  })
  test('the owner is one that the policy pins, and its delay is known and long enough', async () => {
    const owner = `0x${'0a'.repeat(20)}`
    const judged = (kms_contract: EvidenceBundle['kms_contract'], change: object = {}) =>
      checkOf('kms_owner', { ...under(provider), kms_contract }, { ...pins(), kms: { ...owned, ...change } })
    const owned = { ...kms, owners: [`0x${'0b'.repeat(20)}`, owner.toUpperCase().replace('X', 'x')] }
    expect((await judged({ owner, min_delay_s: null })).values).toEqual({ owner })
    for (const other of ['', '0x', owner.slice(2), `0x${'0a'.repeat(19)}0b`, `0x${'0A'.repeat(20)}`])
      expect((await judged({ owner: other, min_delay_s: null })).reason).toBe(
        `${other} owns the KMS contract`,
      )
    expect((await judged(null)).reason).toMatch(/could not be read/)
    const lock = { timelock_min_s: 60 }
    expect((await judged({ owner, min_delay_s: 60 }, lock)).result).toBe('pass')
    expect((await judged({ owner, min_delay_s: 59 }, lock)).reason).toMatch(
      /waits 59 s, the policy asks for 60 s/,
    )
    expect((await judged({ owner, min_delay_s: null }, lock)).reason).toMatch(/is no timelock/)
    const absent = await judged({ owner, min_delay_s: null }, { owners: undefined })
    expect(absent.reason_code).toBe('kms_owner_unpinned')
  })
  test('a machine that states another provider fails, also when the policy pins that one too', async () => {
    for (const other of [
      { name: 'kms', id: '01' },
      { name: 'local-sgx', id: '00' },
      { name: 'none', id: '' },
    ]) {
      const bundle = { ...under(other), kms_allowed: true }
      expect(await checkOf('key_provider', bundle, pins())).toMatchObject({ result: 'fail' })
      expect(await checkOf('kms', bundle, pins())).toMatchObject({ result: 'skipped', reason_code: '' })
    }
    const local = { name: 'local-sgx', id: '00' }
    const both = { ...pins(), key_providers: [provider, local] }
    const judged = await checkOf('kms', { ...under(local), kms_allowed: true }, both)
    expect(judged).toMatchObject({ result: 'fail', reason: expect.stringMatching(/come from local-sgx/) })
  })
  test('a provider that is not a name and an id fails', async () => {
    for (const odd of [[], {}, { name: 'kms' }, { name: 'kms', id: '00', more: 1 }])
      expect(await checkOf('key_provider', under(odd))).toMatchObject({ result: 'fail' })
  })
})

test('pinned registers identify their operating system', async () => {
  const { rtmr, mr_td } = parseQuote(fromAnyHex(honest.attestation.quote)!).report
  const [mrtd, rtmr0, rtmr1, rtmr2] = [mr_td, ...rtmr].map(toHex) as [string, string, string, string]
  const tuple = { mrtd, rtmr0, rtmr1, rtmr2 }
  expect((await checkOf('os_image', honest, { registers: [tuple] })).values['by']).toBe('pinned registers')
  for (const name of ['mrtd', 'rtmr0', 'rtmr1', 'rtmr2'] as const) {
    const other = { ...tuple, [name]: '00'.repeat(48) }
    expect((await checkOf('os_image', honest, { registers: [other] })).result).toBe('fail')
  }
  const by_hash = await checkOf('os_image', honest, { os_image_hashes: ['00'.repeat(32)] })
  expect(by_hash.reason).toMatch(/does not describe its image/)
})

const OS_IMAGE_HASH = 'e6f5cfec20c02e7b97baa213d0f718020b55e040172d90ccbcb946d56c8b09db'

function realMachine() {
  const { quote, event_log, vm_config } = readAnswer('dstack-0.6-lite')
  const { report } = parseQuote(new Uint8Array(Buffer.from(quote, 'hex')))
  return { report, events: parseEventLog(event_log), vm_config, image: readImageDocument(vm_config)! }
}

describe.skipIf(!HAVE_QUOTES)('a real machine of dstack 0.6', () => {
  test('its log leads to its registers, and its image is recomputed from its own document', () => {
    const { report, events, image } = realMachine()
    expect(replayRegisters(events).map(toHex)).toEqual(report.rtmr.map(toHex))
    expect(image.os_image_hash).toBe(OS_IMAGE_HASH)
    expect(() => requireImage(image, report.mr_td, events)).not.toThrow()
  })
  test('another firmware, kernel, command line, initial disk or memory size is refused', () => {
    const { report, events, image } = realMachine()
    const other = new Uint8Array(48).fill(1)
    const changes: Partial<ImageDocument>[] = [
      { mr_td_candidates: [other, other] },
      { kernel_authenticode: other },
      { cmdline_sha384: other },
      { initrd_sha384: other },
      { memory_size: image.memory_size * 2 },
      { memory_size: image.memory_size - 4096 },
    ]
    for (const change of changes)
      expect(() => requireImage({ ...image, ...change }, report.mr_td, events)).toThrow(
        /not those|not the one|not known/,
      )
    for (let left_out = 0; left_out < events.length; left_out++) {
      if (events[left_out]!.imr === 3) continue
      expect(() => requireImage(image, report.mr_td, events.toSpliced(left_out, 1))).toThrow(/not those/)
    }
  })
  test('check 4.1 recomputes the image that the policy names, and no other', async () => {
    const { report, events, vm_config } = realMachine()
    const judge = async (policy: object, known = events) =>
      checkOsImage({
        policy,
        bundle: { attestation: { vm_config } },
        established: { genuine: { quote: { report } }, events: known },
      } as unknown as VerificationCase)
    const named = { os_image_hashes: ['00'.repeat(32), OS_IMAGE_HASH] }
    expect((await judge(named))['by']).toBe('recomputation')
    await expect(judge({ os_image_hashes: ['00'.repeat(32)] })).rejects.toThrow(/is not one the policy names/)
    await expect(judge(named, events.slice(1))).rejects.toThrow(/RTMR0 are not those of the image/)
    const [mrtd, rtmr0, rtmr1, rtmr2] = [report.mr_td, ...report.rtmr].map(toHex)
    const pinned = { mrtd, rtmr0, rtmr1, rtmr2, xfam: toHex(report.xfam) }
    const registers = [{ ...pinned, rtmr0: '00'.repeat(48) }, pinned]
    expect((await judge({ registers }))['by']).toBe('pinned registers')
    const others = Object.keys(pinned).map((name) => ({
      ...pinned,
      [name]: '00'.repeat(name === 'xfam' ? 8 : 48),
    }))
    await expect(judge({ registers: others })).rejects.toThrow(/no operating system the policy names/)
    expect((await judge({ registers: others, ...named }))['by']).toBe('recomputation')
    await expect(judge({})).rejects.toThrow(/names no operating system/)
  })
  test('a document that its checksum file does not list is refused', () => {
    const config = JSON.parse(realMachine().vm_config)
    const measurement = Buffer.from(config.tdx_measurement.measurement, 'base64')
    measurement[measurement.length - 1]! ^= 1
    config.tdx_measurement.measurement = measurement.toString('base64')
    expect(() => readImageDocument(JSON.stringify(config))).toThrow(/does not list/)
  })
  test('another checksum file is another image', () => {
    const config = JSON.parse(realMachine().vm_config)
    const checksums = Buffer.from(config.tdx_measurement.checksum_file, 'base64').toString()
    config.tdx_measurement.checksum_file = btoa(`${checksums}${'0'.repeat(64)}  more\n`)
    expect(readImageDocument(JSON.stringify(config))!.os_image_hash).not.toBe(OS_IMAGE_HASH)
  })
})

type Cbor = number | string | Uint8Array | { [key: string]: Cbor }
function encodeCbor(value: Cbor): Uint8Array {
  const head = (major: number, length: number) =>
    length < 24 ? Uint8Array.of((major << 5) | length) : Uint8Array.of((major << 5) | 24, length)
  if (typeof value === 'number') return head(0, value)
  if (typeof value === 'string') return concatBytes(head(3, value.length), utf8(value))
  if (value instanceof Uint8Array) return concatBytes(head(2, value.length), value)
  const entries = Object.entries(value).flatMap(([key, inner]) => [encodeCbor(key), encodeCbor(inner)])
  return concatBytes(head(5, Object.keys(value).length), ...entries)
}
const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')

describe('the measurement document', () => {
  const digest = (fill: number) => new Uint8Array(48).fill(fill)
  const IMAGE = { kernel_authenticode: digest(3), cmdline_sha384: digest(4), initrd_sha384: digest(5) }
  const MRTD = { single_pass: digest(1), two_pass: digest(2) }
  const TDVF = { ovmf: 'pre202505', td_hob: Uint8Array.of(1, 1, 1, 0, 1), mrtd: MRTD }
  const DOCUMENT = { version: 3, image: IMAGE, tdvf: TDVF }
  const NAME = 'measurement.tdx.cbor'
  const listing = (document: Cbor, name = NAME) => `${toHex(sha256(encodeCbor(document)))}  ${name}\n`
  const read = (document: Cbor, checksums = listing(document), memory_size: unknown = 2 ** 31) =>
    readImageDocument(
      JSON.stringify({
        memory_size,
        tdx_measurement: { checksum_file: btoa(checksums), measurement: base64(encodeCbor(document)) },
      }),
    )
  test('every member is read', () => {
    expect(read(DOCUMENT)).toEqual({
      os_image_hash: toHex(sha256(utf8(listing(DOCUMENT)))),
      memory_size: 2 ** 31,
      mr_td_candidates: [digest(1), digest(2)],
      td_hob_witness: TDVF.td_hob,
      ...IMAGE,
    })
  })
  test('a member that is absent, of another type or width is refused', () => {
    const faulty: Cbor[] = [{ ...DOCUMENT, image: 1 }, { ...DOCUMENT, tdvf: '' }, { version: 3 }]
    for (const wrong of [1, 'x', digest(1).slice(1), new Uint8Array(49), {}]) {
      for (const name of Object.keys(IMAGE)) faulty.push({ ...DOCUMENT, image: { ...IMAGE, [name]: wrong } })
      for (const name of Object.keys(MRTD))
        faulty.push({ ...DOCUMENT, tdvf: { ...TDVF, mrtd: { ...MRTD, [name]: wrong } } })
    }
    for (const td_hob of [1, 'x', {}]) faulty.push({ ...DOCUMENT, tdvf: { ...TDVF, td_hob } })
    for (const document of faulty) expect(() => read(document)).toThrow(/document is malformed/)
    for (const version of [2, 4, '3']) expect(() => read({ ...DOCUMENT, version })).toThrow(/another version/)
    expect(() => read({ ...DOCUMENT, tdvf: { ...TDVF, ovmf: 'edk2' } })).toThrow(/firmware layout/)
    for (const memory_size of [-1, 0.5, '1', null, 2 ** 53])
      expect(() => read(DOCUMENT, listing(DOCUMENT), memory_size)).toThrow(/well formed memory_size/)
  })
  test('it is listed once, under its name, with its hash', () => {
    const line = listing(DOCUMENT)
    for (const checksums of ['', line + line, listing(DOCUMENT, 'other'), listing({}), listing({}) + line])
      expect(() => read(DOCUMENT, checksums)).toThrow(/does not list/)
    expect(read(DOCUMENT, listing({}, 'other') + line)).toBeDefined()
    expect(read(DOCUMENT, line.replace('  ', ' *'))).toBeDefined()
  })
})

test('the memory witness is whole, in order and of a bounded number of ranges', () => {
  const GIB = 2 ** 30
  /** Base page 0, list in page 1, then the ranges as start and length in pages. */
  const witness = (...ranges: number[]) => Uint8Array.of(0, 1, ranges.length / 2, ...ranges)
  const of = (count: number) => witness(...Array.from({ length: count }, (_, at) => [at, 1]).flat())
  expect(tdHobDigest(witness(4, 1, 6, 2), 2 * GIB)).toHaveLength(48)
  // Order and empty ranges change nothing, anything else does.
  expect(tdHobDigest(witness(6, 2, 4, 1), 2 * GIB)).toEqual(tdHobDigest(witness(4, 1, 6, 2), 2 * GIB))
  expect(tdHobDigest(witness(4, 1, 6, 2, 9, 0), 2 * GIB)).toEqual(tdHobDigest(witness(4, 1, 6, 2), 2 * GIB))
  const digests = [
    tdHobDigest(witness(4, 1, 6, 2), 2 * GIB),
    tdHobDigest(witness(4, 1, 6, 1), 2 * GIB),
    tdHobDigest(witness(4, 1, 7, 2), 2 * GIB),
    tdHobDigest(witness(4, 1, 6, 2), 3 * GIB),
    tdHobDigest(witness(4, 1, 6, 2), 0xb000_0000),
    tdHobDigest(witness(4, 1, 6, 2), 0xb000_0000 - 4096),
  ]
  expect(new Set(digests.map(toHex)).size).toBe(digests.length)
  expect(tdHobDigest(of(MEMORY_RANGES_MAX), 2 * GIB)).toHaveLength(48)
  const malformed: Uint8Array[] = [Uint8Array.of(), Uint8Array.of(0, 1), witness(), of(MEMORY_RANGES_MAX + 1)]
  malformed.push(concatBytes(witness(4, 1), Uint8Array.of(0)), witness(4, 1).slice(0, -1))
  malformed.push(Uint8Array.of(...Array(7).fill(0x80), 0, 1, 1, 4, 1))
  for (const one of malformed) expect(() => tdHobDigest(one, 2 * GIB)).toThrow(/witness is malformed/)
  expect(() => tdHobDigest(witness(4, 2, 5, 1), 2 * GIB)).toThrow(/overlap/)
  expect(() => tdHobDigest(witness(4, 2), 5 * 4096)).toThrow(/overlap/)
})

test('the kernel measurement is known for the sizes at which QEMU places the disk at one address', () => {
  for (const memory_size of [0x8000_0000, 0xb000_0000, 2 ** 40])
    expect(isKnownMemorySize(memory_size)).toBe(true)
  for (const memory_size of [0, 0x7fff_ffff, 0x8000_0001, 0xafff_ffff])
    expect(isKnownMemorySize(memory_size)).toBe(false)
})

test('a machine that describes no image has no document', () => {
  expect(readImageDocument('{"memory_size":1}')).toBeUndefined()
  expect(() => readImageDocument('no json')).toThrow()
})

test('CBOR in another than the shortest form, with surplus bytes, repeated keys or other types is refused', () => {
  const map = (...bytes: number[]) => decodeCborMap(Uint8Array.from(bytes))
  expect(map(0xa1, 0x61, 0x61, 0x18, 0x18).get('a')).toBe(24)
  expect(map(0xa1, 0x61, 0x61, 0x19, 0x01, 0x02).get('a')).toBe(0x0102)
  expect(map(0xa1, 0x61, 0x61, 0x1a, 0x01, 0x02, 0x03, 0x04).get('a')).toBe(0x01020304)
  for (const bytes of [
    [],
    [0xa0, 0x00],
    [0x01],
    [0xa1, 0x61, 0x61],
    [0xa1, 0x61, 0x61, 0x18, 0x17],
    [0xa1, 0x61, 0x61, 0x19, 0x00, 0xff],
    [0xa2, 0x61, 0x61, 0x01, 0x61, 0x61, 0x01],
    [0xa1, 0x01, 0x01],
    [0xa1, 0x61, 0x61, 0xf6],
    [0xbf, 0xff],
    [0xa1, 0x61, 0xff, 0x01],
    [0xa1, 0x61, 0x61, 0x5a, 0xff, 0xff, 0xff, 0xff],
  ])
    expect(() => map(...bytes)).toThrow(/malformed/)
})
