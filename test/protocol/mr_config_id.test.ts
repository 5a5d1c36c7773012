/** MRCONFIGID: each form recomputed from the measured claims; anything else never agrees. */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { concatBytes, fromAnyHex, fromHex, toHex, utf8 } from '../../protocol/bytes'
import { type MeasuredClaims, measuredClaims, parseEventLog } from '../../protocol/tdx/event_log'
import { judgeMrConfigId, readKeyProvider } from '../../protocol/tdx/mr_config_id'
import { parseQuote } from '../../protocol/tdx/quote'
import { HAVE_QUOTES, readAnswer } from '../kit/verify/real_quotes'

const KMS_ID = '33'.repeat(32)
const claims = (change: Partial<MeasuredClaims> = {}, provider: object = { name: 'kms', id: KMS_ID }) => ({
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
  keccak_256(concatBytes(claims().compose_hash, claims().app_id, Uint8Array.of(kind), id))

test('none is 48 zero bytes', () => {
  expect(judgeMrConfigId(new Uint8Array(48), claims())).toBe('none')
})

test('form 1 is the compose hash', () => {
  const value = committed(1, claims().compose_hash)
  expect(judgeMrConfigId(value, claims())).toBe('compose_hash')
  expect(judgeMrConfigId(value, claims({ compose_hash: new Uint8Array(32) }))).toBe('other')
})

test('form 2 hashes manifest, app, kind and id of the provider', () => {
  // The empty message: Keccak-256, not SHA3-256.
  expect(toHex(keccak_256(new Uint8Array()))).toStartWith('c5d2460186f7233c927e7db2dcc703c0')
  const id = fromHex(KMS_ID, 32)!
  const names = ['none', 'local-sgx', 'kms', 'tpm']
  for (const [kind, name] of names.entries()) {
    const measured = claims({}, { name, id: KMS_ID })
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
    expect(judgeMrConfigId(value, claims(change))).toBe('other')
})

test('form 3 hashes the document as dstack writes it', () => {
  const app = `"app_id":"${'11'.repeat(20)}",`
  const hash = `"compose_hash":"${'22'.repeat(32)}",`
  const instance = `"instance_id":"${'44'.repeat(20)}",`
  const id = `,"key_provider_id":"${KMS_ID}"`
  const judge = (text: string, measured = claims()) =>
    judgeMrConfigId(committed(3, documentHash(text)), measured)
  const documents = [
    `{${app}${hash}${instance}"key_provider":"kms"${id},"version":3}`,
    `{${app}${hash}"init_script_hashes":[],${instance}"key_provider":"kms"${id},"version":3}`,
    `{${hash}${instance}"key_provider":"kms"${id},"version":3}`,
    `{${app}${hash}"key_provider":"kms","version":3}`,
  ]
  for (const text of documents) {
    expect(judge(text)).toBe('document')
    expect(judge(text, claims({ compose_hash: new Uint8Array(32) }))).toBe('other')
    expect(judge(text, claims({}, { name: 'none', id: '' }))).toBe('other')
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
  expect(judge(local, claims({}, { name: 'local-sgx', id: KMS_ID }))).toBe('document')
})

test('an unknown form, padding and another width are malformed', () => {
  const value = committed(1, claims().compose_hash)
  for (const form of [0, 4, 5, 255]) expect(judgeMrConfigId(value.with(0, form), claims())).toBe('malformed')
  for (let at = 33; at < 48; at++) expect(judgeMrConfigId(value.with(at, 1), claims())).toBe('malformed')
  expect(judgeMrConfigId(value.slice(0, 47), claims())).toBe('malformed')
})

test('an unknown or unreadable provider agrees with no form that names it', () => {
  const value = committed(2, secondHash(2, fromHex(KMS_ID, 32)!))
  const providers = [{ name: 'constructor', id: KMS_ID }, { name: 'kms', id: 'x' }, { id: KMS_ID }, []]
  for (const provider of providers) expect(judgeMrConfigId(value, claims({}, provider))).toBe('other')
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
