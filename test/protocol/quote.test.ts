/** Quotes, event logs and MRCONFIGID: exact structure, on real ones and everything near them; claims where they count. */

import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha384 } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import fc from 'fast-check'
import { concatBytes, fromAnyHex, fromHex, toHex, utf8 } from '../../protocol/bytes'
import { BOOT_EVENT_NAME_MAX, BOOT_EVENT_PAYLOAD_MAX, BOOT_EVENTS_MAX } from '../../protocol/limits'
import { INTEL_ROOT_KEY } from '../../protocol/tdx/collateral'
import {
  MalformedEventLog,
  type MeasuredClaims,
  measuredClaims,
  parseEventLog,
  RUNTIME_EVENT_TYPE,
  replayRegisters,
  runtimeDigest,
} from '../../protocol/tdx/event_log'
import { judgeMrConfigId, readKeyProvider } from '../../protocol/tdx/mr_config_id'
import {
  attestationReportData,
  evidenceReportData,
  JointNonce,
  MalformedQuote,
  parseQuote,
  pathOf,
  quotedNonce,
} from '../../protocol/tdx/quote'
import { forgeLog } from '../kit/verify/lying_machine'
import { HAVE_QUOTES, readAnswer } from '../kit/verify/sign_any_quote'
import joint from '../vectors/joint_nonce.json'

const QUOTES = join(import.meta.dir, '../../../shared/quotes')
const present = existsSync(QUOTES)
if (!present) console.log('skipped: no real quotes at ../shared/quotes')

const hardwareQuote = (): Uint8Array =>
  new Uint8Array(readFileSync(join(QUOTES, 'dcap-qvl-b0c06f/quote.bin')))
const STRUCTURE_BYTES = 4936

test.skipIf(!present)('a hardware quote is read field by field', () => {
  const bytes = hardwareQuote()
  const quote = parseQuote(bytes)
  const at = (offset: number, width: number) => toHex(bytes.slice(offset, offset + width))
  expect(quote.version).toBe(4)
  expect(toHex(quote.report.mr_td)).toBe(at(184, 48))
  expect(toHex(quote.report.mr_config_id)).toBe(at(232, 48))
  expect(quote.report.rtmr.map(toHex)).toEqual([at(376, 48), at(424, 48), at(472, 48), at(520, 48)])
  expect(toHex(quote.report.report_data)).toBe(at(568, 64))
  expect(toHex(quote.report.td_attributes)).toBe('0000001000000000')
  expect(toHex(quote.signed)).toBe(at(0, 632))
  expect(quote.pck_chain).toHaveLength(3)
  expect(toHex(quote.pck_chain[2]!)).toContain(toHex(INTEL_ROOT_KEY))
})

test.skipIf(!present)('a quote cut at any place is refused, but for its zero padding', () => {
  const bytes = hardwareQuote()
  expect(bytes).toHaveLength(STRUCTURE_BYTES + 70)
  for (let length = 0; length < STRUCTURE_BYTES; length += 13) {
    expect(() => parseQuote(bytes.slice(0, length))).toThrow(MalformedQuote)
  }
  expect(() => parseQuote(bytes.slice(0, STRUCTURE_BYTES - 1))).toThrow(MalformedQuote)
  expect(parseQuote(bytes.slice(0, STRUCTURE_BYTES)).version).toBe(4)
})

test.skipIf(!present)('anything but zeros behind a quote is refused', () => {
  const bytes = hardwareQuote()
  expect(() => parseQuote(concatBytes(bytes, Uint8Array.of(1)))).toThrow('followed by other bytes')
  bytes[STRUCTURE_BYTES] = 1
  expect(() => parseQuote(bytes)).toThrow('followed by other bytes')
})

test.skipIf(!present)('another version, key type, TEE or certification type is refused', () => {
  const changed = (offset: number, value: number) => {
    const bytes = hardwareQuote()
    bytes[offset] = value
    return () => parseQuote(bytes)
  }
  expect(changed(0, 3)).toThrow('version')
  expect(changed(0, 5)).toThrow(MalformedQuote)
  expect(changed(2, 3)).toThrow('not ECDSA P-256')
  expect(changed(4, 0)).toThrow('not TDX')
  expect(changed(632, 0xff)).toThrow(MalformedQuote)
  expect(changed(636 + 128, 5)).toThrow('not a QE report')
  expect(changed(1252, 6)).toThrow('no PCK certificate chain')
})

test.skipIf(!present)('a reserved byte that is not zero is refused', () => {
  for (const offset of [8, 11, 790, 817, 866, 897, 930, 1025, 1030, 1089]) {
    const bytes = hardwareQuote()
    bytes[offset] = 1
    expect(() => parseQuote(bytes)).toThrow('a reserved byte')
  }
})

test.skipIf(!present)(
  'a byte behind the certification data, or behind the chain inside it, is refused',
  () => {
    const longer = (...lengths: number[]) => {
      const bytes = hardwareQuote()
      for (const at of lengths)
        new DataView(bytes.buffer).setUint32(at, bytes[at]! + bytes[at + 1]! * 256 + 1, true)
      return () => parseQuote(bytes)
    }
    expect(longer(632)).toThrow('the signature data: bytes follow')
    expect(longer(632, 766)).toThrow('the QE certification data: bytes follow')
  },
)

test.skipIf(!present)('a chain without line end and zero byte is whole', () => {
  const bytes = hardwareQuote()
  const view = new DataView(bytes.buffer)
  for (const at of [632, 766, 1254]) view.setUint32(at, view.getUint32(at, true) - 2, true)
  bytes.fill(0, STRUCTURE_BYTES - 2)
  expect(parseQuote(bytes).pck_chain).toHaveLength(3)
})

test.skipIf(!present)('version 5 carries the same body behind a descriptor of its type and length', () => {
  const bytes = hardwareQuote()
  const version_5 = (type: number, length: number, more: Uint8Array) => {
    const descriptor = Uint8Array.of(type, 0, length & 0xff, length >> 8, 0, 0)
    const header = bytes.slice(0, 48)
    header[0] = 5
    return concatBytes(header, descriptor, bytes.slice(48, 632), more, bytes.slice(632))
  }
  const td_10 = parseQuote(version_5(2, 584, new Uint8Array()))
  expect(td_10.report).toEqual(parseQuote(bytes).report)
  expect(td_10.signed).toHaveLength(48 + 6 + 584)
  const td_15 = parseQuote(version_5(3, 648, new Uint8Array(64).fill(9)))
  expect(td_15.report.mr_service_td_15).toEqual(new Uint8Array(48).fill(9))
  expect(() => parseQuote(version_5(3, 584, new Uint8Array()))).toThrow('another length')
  expect(() => parseQuote(version_5(2, 648, new Uint8Array()))).toThrow('another length')
  expect(() => parseQuote(version_5(1, 584, new Uint8Array()))).toThrow('not a TD report')
})

test('random bytes never parse and never fail in another way', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 6000 }), (bytes) => {
      expect(() => parseQuote(bytes)).toThrow(MalformedQuote)
    }),
    { numRuns: 100, verbose: 1 },
  )
})

test('report_data is a nonce and the hash of a key, 32 bytes each', () => {
  const bytes = new Uint8Array(32)
  const hash = fromAnyHex('66687aadf862bd776c8fc18b8e9f8e20089714856ee233b3902a591d0d5f2925')!
  expect(attestationReportData(bytes.fill(0), bytes)).toEqual(concatBytes(bytes, hash))
  for (const wrong of [new Uint8Array(31), new Uint8Array(33)]) {
    expect(() => attestationReportData(wrong, bytes)).toThrow(RangeError)
    expect(() => attestationReportData(bytes, wrong)).toThrow(RangeError)
  }
})

test('no nonce can make attestation report_data look like evidence', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      fc.uint8Array({ maxLength: 200 }),
      (nonce, sums) => {
        const evidence = evidenceReportData(sums)
        expect(evidence).toHaveLength(64)
        expect(attestationReportData(nonce, new Uint8Array(32).fill(3))).not.toEqual(evidence)
        expect(attestationReportData(evidence.slice(0, 32), nonce)).not.toEqual(evidence)
      },
    ),
  )
})

if (!present) console.log('skipped: no real event logs at ../shared/quotes')

test.skipIf(!present).each(['dstack-0.5-90c06f', 'dstack-0.6-lite'])(
  '%s: the log replays to all four registers',
  (name) => {
    const answer = JSON.parse(readFileSync(join(QUOTES, name, 'getquote.json'), 'utf8'))
    const { report } = parseQuote(fromAnyHex(answer.quote)!)
    const events = parseEventLog(answer.event_log)
    expect(replayRegisters(events).map(toHex)).toEqual(report.rtmr.map(toHex))
    const { app_id, compose_hash } = measuredClaims(events)
    expect(toHex(app_id)).toBe(toHex(compose_hash).slice(0, 40))
  },
)

test.skipIf(!present)('a digest the log states for a runtime event changes nothing', () => {
  const answer = JSON.parse(readFileSync(join(QUOTES, 'dstack-0.5-90c06f/getquote.json'), 'utf8'))
  const log = JSON.parse(answer.event_log)
  const before = replayRegisters(parseEventLog(answer.event_log))
  for (const event of log) if (event.event_type === RUNTIME_EVENT_TYPE) event.digest = 'ab'.repeat(48)
  expect(replayRegisters(parseEventLog(JSON.stringify(log)))).toEqual(before)
  log.find((event: { event: string }) => event.event === 'compose-hash').event_payload = '00'.repeat(32)
  expect(replayRegisters(parseEventLog(JSON.stringify(log)))[3]).not.toEqual(before[3])
})

const runtime = (event: string, event_payload = '') => ({
  imr: 3,
  event_type: RUNTIME_EVENT_TYPE,
  digest: '',
  event,
  event_payload,
})
const MEASURED = [
  runtime('system-preparing'),
  runtime('app-id', '11'.repeat(20)),
  runtime('compose-hash', '22'.repeat(32)),
  runtime('instance-id', '33'.repeat(20)),
  runtime('key-provider', toHex(utf8('{"name":"kms"}'))),
  runtime('system-ready'),
]
const claims = (log: unknown[]) => measuredClaims(parseEventLog(JSON.stringify(log)))

test('claims are read before system-ready', () => {
  expect(toHex(claims([...MEASURED, runtime('other', '44')]).compose_hash)).toBe('22'.repeat(32))
})

test.each(['app-id', 'compose-hash', 'instance-id', 'key-provider', 'system-ready'])(
  '%s must occur exactly once and never late',
  (name) => {
    const index = MEASURED.findIndex((event) => event.event === name)
    const event = MEASURED[index]!
    const without = MEASURED.toSpliced(index, 1)
    expect(() => claims(without)).toThrow(`${name} occurs 0 times`)
    expect(() => claims(MEASURED.toSpliced(index, 0, event))).toThrow(`${name} occurs 2 times`)
    expect(() => claims([...MEASURED, event])).toThrow(`${name} occurs 2 times`)
    if (name !== 'system-ready') expect(() => claims([...without, event])).toThrow('follows system-ready')
  },
)

test('a claim of another width is refused', () => {
  expect(() => claims(MEASURED.with(2, runtime('compose-hash', '22'.repeat(31))))).toThrow('another width')
  expect(() => claims(MEASURED.with(1, runtime('app-id', '')))).toThrow('another width')
  expect(() => claims(MEASURED.with(3, runtime('instance-id', '33')))).toThrow('another width')
  const image = runtime('os-image-hash', '44'.repeat(31))
  expect(() => claims(MEASURED.toSpliced(1, 0, image))).toThrow('another width')
  expect(claims(MEASURED.with(3, runtime('instance-id', ''))).instance_id).toHaveLength(0)
})

test.each([0, 1, 4, RUNTIME_EVENT_TYPE - 1, RUNTIME_EVENT_TYPE + 1, 0xffff_ffff])(
  'an event of register 3 under type %d is refused with any digest',
  (event_type) => {
    const disguised = { ...MEASURED[2]!, event_type, digest: '00'.repeat(48) }
    const refused = 'event 2: register 3 has an event of another type'
    expect(() => claims(MEASURED.with(2, disguised))).toThrow(refused)
    expect(() => claims(MEASURED.with(2, { ...disguised, event: '' }))).toThrow(refused)
  },
)

test('relabelled boot events with their genuine digests are refused; the honest order names both manifests', () => {
  for (const type of [0, 1, 0x8000_0007]) {
    const { extended, shown } = forgeLog(MEASURED, type)
    expect(() => parseEventLog(JSON.stringify(shown))).toThrow('register 3 has an event of another type')
    expect(() => claims(extended)).toThrow('system-ready occurs 2 times')
  }
})

test('names and payloads of runtime events are bounded, and no two names share a digest', () => {
  const long = 'n'.repeat(BOOT_EVENT_NAME_MAX)
  const wide = '00'.repeat(BOOT_EVENT_PAYLOAD_MAX)
  expect(claims([...MEASURED, runtime(long, wide)]).app_id).toHaveLength(20)
  const refused = [
    runtime(''),
    runtime(`${long}n`),
    runtime('x', `${wide}00`),
    runtime('compose-hash:'),
    runtime(':compose-hash'),
    // A lone surrogate and U+FFFD have one UTF-8 form; quotes and backslashes have two JSON spellings.
    runtime('\ud800'),
    runtime('\ufffd'),
    runtime('a"b'),
    runtime('a\\b'),
    runtime('a\n'),
    { ...runtime('a:b'), version: 2 },
  ]
  for (const event of refused)
    expect(() => parseEventLog(JSON.stringify([...MEASURED, event]))).toThrow(/malformed/)
})

test('an event type is 32 bits, and events of other registers claim nothing', () => {
  const firmware = { imr: 0, event_type: 4, digest: '00'.repeat(48), event: 'app-id', event_payload: '11' }
  expect(toHex(claims([firmware, ...MEASURED, { ...firmware, imr: 2 }]).app_id)).toBe('11'.repeat(20))
  expect(() => claims([firmware, ...MEASURED.toSpliced(1, 1)])).toThrow('app-id occurs 0 times')
  for (const event_type of [0, 0xffff_ffff])
    expect(parseEventLog(JSON.stringify([{ ...firmware, event_type }]))[0]!.event_type).toBe(event_type)
  for (const digest of ['', '00'.repeat(47), '00'.repeat(49), '0g'.repeat(48), 'AB'.repeat(48)])
    expect(() => parseEventLog(JSON.stringify([{ ...firmware, digest }]))).toThrow(
      'event 0: digest is malformed',
    )
  for (const imr of [4, -1, 1.5, '0', null])
    expect(() => parseEventLog(JSON.stringify([{ ...firmware, imr }]))).toThrow('event 0: imr is malformed')
  for (const event_type of [-1, 0x1_0000_0000, 1.5, '4', null])
    expect(() => parseEventLog(JSON.stringify([{ ...firmware, event_type }]))).toThrow(
      'event 0: event_type is malformed',
    )
})

test('system-ready has no payload', () => {
  expect(() => claims(MEASURED.with(5, runtime('system-ready', '00')))).toThrow('another width')
})

test('claims may be digested by version 2, and a version 1 digest is never one of version 2', () => {
  const second = MEASURED.map((event) => ({ ...event, version: 2 }))
  expect(toHex(claims(second).compose_hash)).toBe('22'.repeat(32))
  const registers = (log: unknown[]) => replayRegisters(parseEventLog(JSON.stringify(log)))[3]
  expect(registers(second)).not.toEqual(registers(MEASURED))
})

test.each([
  ['not JSON', '{'],
  ['not a list', '{}'],
  ['not an object', '[1]'],
  ['a fifth register', JSON.stringify([{ ...runtime('x'), imr: 4 }])],
  [
    'a runtime event of a firmware register',
    JSON.stringify([{ ...runtime('x'), imr: 0, digest: '00'.repeat(48) }]),
  ],
  ['one event too many', JSON.stringify(Array(BOOT_EVENTS_MAX + 1).fill(runtime('x')))],
  ['a short digest', JSON.stringify([{ ...runtime('x'), event_type: 4, digest: '00' }])],
  ['an odd payload', JSON.stringify([runtime('x', '0')])],
  ['a payload in capitals', JSON.stringify([runtime('x', 'AB')])],
  ['a colon in a version 1 name', JSON.stringify([runtime('a:b')])],
  ['an unknown version', JSON.stringify([{ ...runtime('x'), version: 3 }])],
])('%s is refused', (_, text) => {
  expect(() => parseEventLog(text)).toThrow(MalformedEventLog)
})

test('a list as long as the bound allows is read', () => {
  const text = JSON.stringify(Array(BOOT_EVENTS_MAX).fill(runtime('x')))
  expect(parseEventLog(text)).toHaveLength(BOOT_EVENTS_MAX)
})

test('both digest rules hash what they say', () => {
  const payload = Uint8Array.of(0xab, 0xcd)
  const one = sha384(Uint8Array.of(1, 0, 0, 8, ...utf8(':app-id:'), 0xab, 0xcd))
  const two = sha384(utf8('{"name":"app-id","payload":"abcd","type":134217729}'))
  expect(runtimeDigest('app-id', payload)).toEqual(one)
  expect(runtimeDigest('app-id', payload, 1)).toEqual(one)
  expect(runtimeDigest('app-id', payload, 2)).toEqual(two)
})

test('a joint nonce equals its vector, and each path leads to it from its own nonce alone', () => {
  const nonces = joint.nonces.map((one) => fromHex(one, 32)!)
  const join = (of: Uint8Array[]) => {
    const all = new JointNonce()
    const leaves = of.map((one) => all.add(one))
    return { nonce: all.close(), paths: leaves.map(pathOf) }
  }
  const { nonce, paths } = join(nonces)
  expect({ nonces: joint.nonces, quoted: toHex(nonce), paths: paths.map((path) => path.map(toHex)) }).toEqual(
    joint,
  )
  paths.forEach((path, at) => {
    const from = nonces.map((one) => toHex(quotedNonce(one, path)) === joint.quoted)
    expect(from).toEqual(nonces.map((_, other) => other === at))
  })
  expect(join([nonces[0]!])).toEqual({ nonce: nonces[0]!, paths: [[]] })
  expect(() => join([])).toThrow(RangeError)
  for (let count = 1; count < 70; count += 1) {
    const many = Array.from({ length: count }, (_, at) => new Uint8Array(32).fill(at))
    const joined = join(many)
    for (const [at, one] of many.entries()) expect(quotedNonce(one, joined.paths[at]!)).toEqual(joined.nonce)
    expect(Math.max(...joined.paths.map(({ length }) => length))).toBe(Math.ceil(Math.log2(count)))
  }
})

const KMS_ID = '33'.repeat(32)
const mrClaims = (change: Partial<MeasuredClaims> = {}, provider: object = { name: 'kms', id: KMS_ID }) => ({
  app_id: new Uint8Array(20).fill(0x11),
  compose_hash: new Uint8Array(32).fill(0x22),
  instance_id: new Uint8Array(20).fill(0x44),
  key_provider: utf8(JSON.stringify(provider)),
  ...change,
})
function committed(form: number, digest: Uint8Array): Uint8Array {
  const value = new Uint8Array(48)
  value[0] = form
  value.set(digest, 1)
  return value
}
/** By another implementation than the code's. */
const documentHash = (text: string) =>
  new Uint8Array(createHash('sha256').update('dstack-mr-config-v3:').update('\0').update(text).digest())
const secondHash = (kind: number, id: Uint8Array) =>
  keccak_256(concatBytes(mrClaims().compose_hash, mrClaims().app_id, Uint8Array.of(kind), id))

test('none is 48 zero bytes', () => {
  expect(judgeMrConfigId(new Uint8Array(48), mrClaims())).toBe('none')
})

test('form 1 is the compose hash', () => {
  const value = committed(1, mrClaims().compose_hash)
  expect(judgeMrConfigId(value, mrClaims())).toBe('compose_hash')
  expect(judgeMrConfigId(value, mrClaims({ compose_hash: new Uint8Array(32) }))).toBe('other')
})

test('form 2 hashes manifest, app, kind and id of the provider', () => {
  // The empty message: Keccak-256, not SHA3-256.
  expect(toHex(keccak_256(new Uint8Array()))).toStartWith('c5d2460186f7233c927e7db2dcc703c0')
  const id = fromHex(KMS_ID, 32)!
  const names = ['none', 'local-sgx', 'kms', 'tpm']
  for (const [kind, name] of names.entries()) {
    const measured = mrClaims({}, { name, id: KMS_ID })
    expect(judgeMrConfigId(committed(2, secondHash(kind, id)), measured)).toBe('app_and_key_provider')
    // The manifest pins no id.
    const unpinned = committed(2, secondHash(kind, new Uint8Array()))
    expect(judgeMrConfigId(unpinned, measured)).toBe('app_and_key_provider')
    expect(judgeMrConfigId(committed(2, secondHash((kind + 1) % 4, id)), measured)).toBe('other')
    expect(judgeMrConfigId(committed(2, secondHash(kind, id.fill(9))), measured)).toBe('other')
    id.fill(0x33)
  }
  const value = committed(2, secondHash(2, id))
  for (const change of [{ app_id: new Uint8Array(20) }, { compose_hash: new Uint8Array(32) }])
    expect(judgeMrConfigId(value, mrClaims(change))).toBe('other')
})

test('form 3 hashes the document as dstack writes it', () => {
  const app = `"app_id":"${'11'.repeat(20)}",`
  const hash = `"compose_hash":"${'22'.repeat(32)}",`
  const instance = `"instance_id":"${'44'.repeat(20)}",`
  const id = `,"key_provider_id":"${KMS_ID}"`
  const judge = (text: string, measured = mrClaims()) =>
    judgeMrConfigId(committed(3, documentHash(text)), measured)
  const documents = [
    `{${app}${hash}${instance}"key_provider":"kms"${id},"version":3}`,
    `{${app}${hash}"init_script_hashes":[],${instance}"key_provider":"kms"${id},"version":3}`,
    `{${hash}${instance}"key_provider":"kms"${id},"version":3}`,
    `{${app}${hash}"key_provider":"kms","version":3}`,
  ]
  for (const text of documents) {
    expect(judge(text)).toBe('document')
    expect(judge(text, mrClaims({ compose_hash: new Uint8Array(32) }))).toBe('other')
    expect(judge(text, mrClaims({}, { name: 'none', id: '' }))).toBe('other')
  }
  const other = [
    // Other names, values, order, scripts, white space, version.
    documents[0]!.replace('"kms"', '"local"'),
    documents[0]!.replace('44', '45'),
    documents[0]!.replace('11', '12'),
    documents[1]!.replace('[]', `["${'aa'.repeat(32)}"]`),
    ` ${documents[0]}`,
    documents[0]!.replace('"version":3', '"version":4'),
  ]
  for (const text of other) expect(judge(text)).toBe('other')
  const local = documents[0]!.replace('"kms"', '"local"')
  expect(judge(local, mrClaims({}, { name: 'local-sgx', id: KMS_ID }))).toBe('document')
})

test('an unknown form, padding and another width are malformed', () => {
  const value = committed(1, mrClaims().compose_hash)
  for (const form of [0, 4, 5, 255])
    expect(judgeMrConfigId(value.with(0, form), mrClaims())).toBe('malformed')
  for (let at = 33; at < 48; at++) expect(judgeMrConfigId(value.with(at, 1), mrClaims())).toBe('malformed')
  expect(judgeMrConfigId(value.slice(0, 47), mrClaims())).toBe('malformed')
})

test('an unknown or unreadable provider agrees with no form that names it', () => {
  const value = committed(2, secondHash(2, fromHex(KMS_ID, 32)!))
  const providers = [{ name: 'constructor', id: KMS_ID }, { name: 'kms', id: 'x' }, { id: KMS_ID }, []]
  for (const provider of providers) expect(judgeMrConfigId(value, mrClaims({}, provider))).toBe('other')
})

test('a key provider is exactly a name and an id', () => {
  const read = (text: string) => readKeyProvider({ key_provider: utf8(text) })
  expect(read('{"name":"kms","id":"00"}')).toEqual({ name: 'kms', id: '00' })
  for (const text of [
    '',
    'null',
    '[]',
    '{}',
    '{"name":"kms"}',
    '{"name":1,"id":""}',
    '{"name":"","id":"","x":1}',
    // Other spellings of one provider: dstack measures one, so its host cannot choose.
    '{"id":"00","name":"kms"}',
    '{"name": "kms","id":"00"}',
    '{"name":"kms","id":"00"} ',
    '\n{"name":"kms","id":"00"}',
    '{"name":"kms","id":"00"}\n',
    '\ufeff{"name":"kms","id":"00"}',
    '{"name":"k\\u006ds","id":"00"}',
    '{"name":"kms","name":"kms","id":"00"}',
    '{"name":"kms","id":"0A"}',
    '{"name":"kms","id":"0"}',
    '{"name":"kms","id":"zz"}',
    '{"name":"","id":"00"}',
    '{"name":"kms\u00e9","id":"00"}',
  ])
    expect(read(text)).toBeUndefined()
  expect(readKeyProvider({ key_provider: Uint8Array.of(0xff) })).toBeUndefined()
})

test.skipIf(!HAVE_QUOTES)('real machines have none or form 1', () => {
  const judged = ['dstack-0.5-90c06f', 'dstack-0.6-lite'].map((name) => {
    const { quote, event_log } = readAnswer(name)
    const { report } = parseQuote(fromAnyHex(quote)!)
    return judgeMrConfigId(report.mr_config_id, measuredClaims(parseEventLog(event_log)))
  })
  expect(judged).toEqual(['none', 'compose_hash'])
})
