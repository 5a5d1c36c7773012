/** Every manifest that would hand something to the host is rejected, with the place; the venue's own passes. */
import { describe, expect, test } from 'bun:test'
import { checkManifest } from '../../../client/verify/checks/quote'
import type { VerificationCase } from '../../../client/verify/checks/verification_case'
import { lintManifest, parsePlainYaml, UnjudgedYaml } from '../../../client/verify/lint_manifest'
import { Refused } from '../../../client/verify/transcript'
import { utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { SECRET_NAMES, SETTING_FORMS } from '../../../protocol/tdx/venue_manifest'
import { judgeManifest } from '../../../tools/manifest/main'
import { ENVIRONMENT, edited, HOSTILE_COMPOSE_FILES, type Row } from '../../kit/verify/hostile_compose'
import {
  FILLED_COMPOSE,
  HOSTILE_MANIFESTS,
  manifest,
  manifestOf,
  OWN,
} from '../../kit/verify/hostile_manifests'

const lint = (text: string) => lintManifest(text, SECRET_NAMES).faults

/** Gives a manifest to check 3.2, as if it had been measured. */
async function faultsOfClient(text: string): Promise<string> {
  const compose_hash = sha256(utf8(text))
  const policy = { environment_names: [...SECRET_NAMES] }
  const judged = { bundle: { app_compose: text }, policy, established: { claims: { compose_hash } } }
  try {
    await checkManifest(judged as unknown as VerificationCase)
    return ''
  } catch (error) {
    if (error instanceof Refused) return error.message
    throw error
  }
}

describe("the venue's own manifest", () => {
  test('passes, with and without its optional members', async () => {
    const dns = edited("TACIT_ACME_DNS_SECRET: ''", `TACIT_ACME_DNS_SECRET: \${TACIT_ACME_DNS_SECRET}`)
    const texts = [
      OWN,
      manifest({ key_provider_id: 'ab'.repeat(91) }),
      manifest({ event_log_version: 1 }),
      manifest({ secure_time: true }),
      manifestOf(dns, { allowed_envs: ['TACIT_ACME_DNS_SECRET', 'TACIT_FEE_ANCHOR'] }),
      manifestOf(edited(/ {4}healthcheck:[\s\S]*?(?= {4}environment:)/, '')),
    ]
    for (const text of texts) expect(await faultsOfClient(text)).toBe('')
  })
  test('takes no secret that the policy of the client does not name', () => {
    expect(lintManifest(OWN, []).faults).toEqual([
      `${ENVIRONMENT}.TACIT_FEE_ANCHOR: the encrypted environment may not deliver it`,
    ])
    expect(lintManifest(manifest({ allowed_envs: ['LD_PRELOAD'] }), ['LD_PRELOAD']).faults[0]).toStartWith(
      'allowed_envs[0]',
    )
  })
})

test('a list inside a list, and an empty item, are rejected as that', () => {
  for (const item of ['-', '- -', '- - x', '-  #'])
    expect(() => parsePlainYaml(`key:\n  ${item}\n`)).toThrow('line 2: a nested list')
})

test('sixteen levels are read, and one more is refused', () => {
  const nested = (levels: number) =>
    Array.from({ length: levels }, (_, level) => `${'  '.repeat(level)}key:`).join('\n')
  expect(parsePlainYaml(`${nested(17)} value\n`).size).toBe(1)
  expect(() => parsePlainYaml(`${nested(18)} value\n`)).toThrow('too many levels')
})

test('a manifest has at most 256 KiB', () => {
  const of = (bytes: number) => {
    const short = manifestOf(`${FILLED_COMPOSE}# \n`).length
    return lint(manifestOf(`${FILLED_COMPOSE}# ${'x'.repeat(bytes - short)}\n`))
  }
  expect(of(256 * 1024)).toEqual([])
  expect(of(256 * 1024 + 1)).toEqual(['it is longer than 256 KiB'])
})

test('the key of a KMS root has 16 to 256 bytes', () => {
  const of = (bytes: number) => lint(manifest({ key_provider_id: 'ab'.repeat(bytes) }))
  expect([of(16), of(256)]).toEqual([[], []])
  for (const bytes of [0, 15, 257])
    expect(of(bytes)).toEqual([
      'key_provider_id: must be the DER public key of the KMS root in lowercase hex',
    ])
})

test('a text in another form is rejected at its first character that differs', () => {
  const at = OWN.indexOf('"name"')
  const near = JSON.stringify(`${OWN.slice(at - 8, at)} ${OWN.slice(at, at + 31)}`)
  expect(lint(`${OWN.slice(0, at)} ${OWN.slice(at)}`)).toEqual([
    `character ${at + 1}: must be JSON with sorted keys, each once, and no white space, near ${near}`,
  ])
})

describe('nothing may be left to a default', () => {
  const faultsWithout = (text: string) => lint(text).map((fault) => fault.replace('compose file: ', ''))
  test('every member of the manifest is required', () => {
    const members = Object.entries(JSON.parse(OWN))
    expect(members.length).toBeGreaterThan(15)
    for (const [name] of members)
      expect(
        faultsWithout(JSON.stringify(Object.fromEntries(members.filter(([one]) => one !== name)))),
      ).toEqual([`${name}: missing`])
  })
  test('every key of the service but its health check is required', () => {
    const keys = [...FILLED_COMPOSE.matchAll(/^ {4}([a-z_]+):.*\n(?: {5,}.*\n)*/gm)]
    expect(keys.length).toBeGreaterThan(10)
    for (const [block, name] of keys) {
      const faults = faultsWithout(manifestOf(FILLED_COMPOSE.replace(block, '')))
      expect(faults[0]).toBe(name === 'healthcheck' ? undefined : `services.venue.${name}: missing`)
    }
  })
  test('every setting is required', () => {
    const settings = [...FILLED_COMPOSE.matchAll(/^ {6}([A-Z_]+):.*\n/gm)]
    expect(settings.map(([, name]) => name).sort()).toEqual(Object.keys(SETTING_FORMS).sort())
    for (const [line, name] of settings)
      expect(faultsWithout(manifestOf(FILLED_COMPOSE.replace(line, '')))[0]).toBe(
        `services.venue.environment.${name}: missing`,
      )
  })
})

const rows: Row[] = [
  ...HOSTILE_COMPOSE_FILES.map(([attack, compose, place]): Row => [attack, manifestOf(compose), place]),
  ...HOSTILE_MANIFESTS,
]
test.each(rows)('%s is rejected, by client and operator alike', async (_attack, text, place) => {
  const faults = lint(text)
  expect(faults.join('\n')).toContain(place)
  expect(faults.join('')).toMatch(/^[\x20-\x7e]+$/)
  expect(await faultsOfClient(text)).toBe(faults.join('; '))
  expect(judgeManifest(text)).toEqual(faults)
})

test('the number of faults is bounded', () => {
  const keys = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`key${at}`, at]))
  expect(lint(manifest(keys))).toHaveLength(101)
})

test('YAML that could be read in two ways is not judged', () => {
  const texts = [
    'a: &x b',
    'a: *x',
    'a: !!str b',
    'a: |\n  b',
    'a: >\n  b',
    '{a: b}',
    'a: {b: c}',
    '? a\n: b',
    '"a": b',
    'a: b\na: c',
    'a: b\n  c',
    'a: b: c',
    'a: "b\\x41"',
    'a: "b',
    "a: 'b''c'",
    'a: "b"c',
    'a: "b"#c',
    '- a',
    'a:\n  - b: c',
    'a:\n  - - b',
    'a:\n  -',
    'a: [b,\n  c]',
    'a: [{b: c}]',
    'a: [b]',
    "a: ['b',]",
    "a: ['b' 'c']",
    "a: ['b'",
    '---\na: b',
    'a: b\n...',
    '%YAML 1.1',
    'a:\tb',
    'a: b\r\nc: d',
    'a: # x\u2028b: c',
    'a: b\x7f',
    '<<: b',
    'a:\n    b: c\n  d: e',
    '',
    'a: b:',
    'null: b',
    'True: b',
    'y: b',
    'a: ~',
    'a: null',
    'a: Null',
    'a: yes',
    'a: Off',
    'a: y',
    'a: TRUE',
    'a: 1e3',
    'a: 0x1',
    'a: 010',
    'a: 1:30',
    'a: 2001-01-01',
    'a: .inf',
    'a: -1',
    'a: 1_000',
    'a: @b',
    'a: `b',
    'a: ,b',
    'a:\n  - b\n - c',
    'a:\n  - b\n    c',
    'a:\n  b:\n- c',
    Array.from({ length: 18 }, (_, at) => `${' '.repeat(at)}a:`).join('\n'),
  ]
  for (const text of texts) expect(() => parsePlainYaml(text)).toThrow(UnjudgedYaml)
})

test('plain YAML is read as docker reads it', () => {
  const text =
    'a: b # c\nd:\n- e\n- "f: g"\nh:\n  i: \'j # k\'\n  l: []\n  m: [\'n\', "o p"] # q\nr:\ns: true\nt: 30\nu: "" # v\nw: x#y\nz: \'a"b\'\n'
  const inner = { i: 'j # k', l: [], m: ['n', 'o p'] }
  const value = { a: 'b', d: ['e', 'f: g'], h: inner, r: null, s: true, t: 30, u: '', w: 'x#y', z: 'a"b' }
  const map = parsePlainYaml(text)
  expect(Object.fromEntries([...map, ['h', Object.fromEntries(map.get('h') as never)]])).toEqual(value)
  expect(Bun.YAML.parse(text)).toEqual(value)
})

test('a file of 1 MB is parsed in linear time', () => {
  const size = 1_000_000
  const texts = {
    spaces: `k: a${' '.repeat(size)}b`,
    'spaces before comments': `k: a${`${' '.repeat(10)}#`.repeat(size / 11)}`,
    'an open quote': `k: "${' #'.repeat(size / 2)}`,
    'a list of spaces': `k: [${' '.repeat(size)}!]`,
    'a list of texts': `k: [${"'a', ".repeat(size / 5)}!]`,
    'a key': 'k'.repeat(size),
    'many keys': Array.from({ length: size / 10 }, (_, at) => `k${at}: v`).join('\n'),
    levels: Array.from({ length: 1_400 }, (_, at) => `${' '.repeat(at)}k:`).join('\n'),
  }
  for (const [, text] of Object.entries(texts)) {
    const started = performance.now()
    try {
      parsePlainYaml(text)
    } catch (error) {
      expect(error).toBeInstanceOf(UnjudgedYaml)
    }
    // Quadratic parsing of such a text took over a minute.
    expect(performance.now() - started).toBeLessThan(10_000)
  }
})
