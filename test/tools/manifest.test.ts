/** The manifest: same bytes from every clone, nothing hidden in it, and none at all while a value is missing. */

import { describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parsePlainYaml, type YamlMap } from '../../client/verify/lint_manifest'
import { FIXED_MEMBERS, SECRET_NAMES, SETTING_FORMS } from '../../protocol/tdx/venue_manifest'
import { SETTING_NAMES } from '../../server/settings/settings'
import { composeHash, fillIn, type ManifestDecisions, makeManifest } from '../../tools/manifest/main'
import {
  COMMITTED_COMPOSE as COMMITTED,
  FILLED_COMPOSE as COMPOSE,
  OPERATOR_VALUES as FILLED,
} from '../kit/verify/hostile_manifests'

const ROOT = join(import.meta.dir, '../..')
const DECISIONS: ManifestDecisions = { name: 'tacit', secure_time: false }
/** How a compose file takes a value from the environment. */
const fromOutside = (name: string) => `\${${name}}`
const faultsOf = (compose: string, decisions: Partial<ManifestDecisions> = {}) =>
  makeManifest(compose, { ...DECISIONS, ...decisions }).faults ?? []
const filledManifest = (decisions: Partial<ManifestDecisions> = {}) => {
  const { manifest, faults } = makeManifest(COMPOSE, { ...DECISIONS, ...decisions })
  if (faults !== undefined) throw new Error(faults.join('; '))
  return manifest
}

function run(folder: string, ...options: string[]) {
  const { stdout, stderr, exitCode } = Bun.spawnSync(['bun', 'tools/manifest/main.ts', ...options], {
    cwd: folder,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  return { out: stdout.toString(), errors: stderr.toString(), exitCode }
}

describe('the committed compose file', () => {
  test('names every setting of the server and nothing else', () => {
    const inside = (map: unknown, key: string) => (map as YamlMap).get(key)
    const environment = inside(inside(inside(parsePlainYaml(COMMITTED), 'services'), 'venue'), 'environment')
    expect([...(environment as YamlMap).keys()].sort()).toEqual([...SETTING_NAMES].sort())
    expect(Object.keys(SETTING_FORMS).sort()).toEqual([...SETTING_NAMES].sort())
  })

  test('is rejected until an operator filled in the missing values, each named', () => {
    const faults = faultsOf(COMMITTED)
    for (const name of FILLED.map((one) => one.split('=')[0]!))
      expect(faults.filter((fault) => fault.startsWith(`${name}: still SET_ME`)).length).toBe(1)
    expect(faults).toContainEqual(expect.stringMatching(/services\.venue\.image: must be an image by digest/))
  })

  test('takes only secrets from outside', () => {
    expect(filledManifest().allowed_envs).toEqual(['TACIT_FEE_ANCHOR'])
    expect(SECRET_NAMES).toContain('TACIT_FEE_ANCHOR')
  })
})

describe('the compose file of several nodes', () => {
  const of_nodes = readFileSync(join(ROOT, 'compose.cluster.yaml'), 'utf8')
  const values = [
    ...FILLED,
    'TACIT_ETCD_URLS=https://a.example:2379,https://b.example:2379,https://c.example:2379',
    'TACIT_ETCD_CA=AAAA',
    'TACIT_ETCD_CERT=AAAA',
  ]

  test('is that of one machine but for its log and its lease', () => {
    const lines = (text: string) =>
      text
        .slice(text.indexOf('services:'))
        .split('\n')
        .filter((line) => !/^ *#/.test(line))
    const [one, several] = [lines(COMMITTED), lines(of_nodes)]
    expect(several.filter((line) => !one.includes(line))).toEqual([
      "      TACIT_LEASE_MS: '3000'",
      '      TACIT_ETCD_URLS: SET_ME',
      '      TACIT_ETCD_CA: SET_ME',
      '      TACIT_ETCD_CERT: SET_ME',
      `      TACIT_ETCD_KEY: ${fromOutside('TACIT_ETCD_KEY')}`,
    ])
    expect(several.length).toBe(one.length)
  })

  test('is rejected until its log is named, and takes the key of the log from outside', () => {
    const faults = faultsOf(fillIn(of_nodes, FILLED))
    for (const name of ['URLS', 'CA', 'CERT'])
      expect(faults.join()).toContain(`TACIT_ETCD_${name}: still SET_ME`)
    const { manifest } = makeManifest(fillIn(of_nodes, values), DECISIONS)
    expect(manifest?.allowed_envs).toEqual(['TACIT_ETCD_KEY', 'TACIT_FEE_ANCHOR'])
  })

  test('is rejected with the lease of one machine', () => {
    const faults = faultsOf(fillIn(of_nodes, [...values, 'TACIT_LEASE_MS=8000']))
    expect(faults.join()).toContain('lease_ms: 100 to 3000')
  })
})

describe('the manifest', () => {
  test('is the same file from a second clone', () => {
    if (!existsSync(join(ROOT, '.git'))) return console.log('skipped: this tree is not a git clone')
    const folder = mkdtempSync(join(tmpdir(), 'tacit-clone-'))
    try {
      const clone = join(folder, 'second')
      expect(Bun.spawnSync(['git', 'clone', '--quiet', '--shared', ROOT, clone]).exitCode).toBe(0)
      symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'))
      cpSync(join(clone, 'compose.yaml'), join(folder, 'compose.yaml'))
      const sets = FILLED.flatMap((one) => ['--set', one])
      const here = run(ROOT, '--compose', join(folder, 'compose.yaml'), ...sets, '--out', join(folder, 'a'))
      const there = run(clone, ...sets, '--out', join(folder, 'b'))
      expect(here).toMatchObject({ errors: '', exitCode: 0 })
      expect(there).toMatchObject({ errors: '', exitCode: 0 })
      const text = readFileSync(join(folder, 'a'), 'utf8')
      expect(readFileSync(join(folder, 'b'), 'utf8')).toBe(text)
      expect(there.out).toContain(composeHash(text))
      expect(run(clone, '--check', join(folder, 'a')).out).toBe(`compose hash  ${composeHash(text)}\n`)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('holds the compose file byte for byte and keeps logs private', () => {
    const manifest = JSON.parse(filledManifest().text)
    expect(manifest.docker_compose_file).toBe(COMPOSE)
    expect(manifest).toMatchObject({ ...FIXED_MEMBERS, secure_time: false, key_provider: 'kms' })
    expect(manifest.port_policy).toEqual({
      ports: [
        { port: 443, pp: false },
        { port: 8444, pp: false },
      ],
      restrict_mode: true,
    })
  })

  test('is in the form other tools canonicalise to', () => {
    const { text } = filledManifest()
    expect(JSON.stringify(JSON.parse(text))).toBe(text)
    expect(Object.keys(JSON.parse(text))).toEqual(Object.keys(JSON.parse(text)).sort())
  })

  test('changes its hash with every decision', () => {
    const hashes = [{}, { name: 'other' }, { secure_time: true }, { key_provider_id: 'ab'.repeat(45) }].map(
      (decisions) => filledManifest(decisions).compose_hash,
    )
    expect(new Set(hashes).size).toBe(hashes.length)
  })
})

describe('a manifest is refused', () => {
  const edits: [string, (text: string) => string, string | RegExp][] = [
    [
      'for a key no rule covers',
      (t) => t.replace('    image:', '    pid: host\n    image:'),
      'compose file: services.venue.pid: not an allowed key',
    ],
    [
      'for a secret in the open',
      (t) => t.replace(fromOutside('TACIT_FEE_ANCHOR'), `'${'0'.repeat(63)}1'`),
      /^TACIT_FEE_ANCHOR: secret/,
    ],
    [
      'for a member of etcd without TLS',
      (t) => t.replace("TACIT_ETCD_URLS: ''", "TACIT_ETCD_URLS: 'http://one.example:2379'"),
      /TACIT_ETCD_URLS/,
    ],
    [
      'for fewer than three members of etcd',
      (t) =>
        t.replace(
          "TACIT_ETCD_URLS: ''",
          "TACIT_ETCD_URLS: 'https://a.example:1,https://a.example:1,https://b.example:1'",
        ),
      'TACIT_ETCD_URLS: three members at least with TACIT_ENCLAVE=dstack',
    ],
    [
      'for a cluster without the authority and the certificate of its log',
      (t) => t.replace("TACIT_ETCD_URLS: ''", "TACIT_ETCD_URLS: 'https://one.example:2379'"),
      /^TACIT_ETCD_CA: required with TACIT_ETCD_URLS/m,
    ],
    [
      'for one chain provider',
      (t) => t.replace(',https://two.example/path', ',https://one.example/b'),
      /two providers/,
    ],
    [
      'for an instrument the engine refuses',
      (t) => t.replace('"lot_size":"1000000"', '"lot_size":"1000001"'),
      /instruments\[0\]/,
    ],
    [
      'for a setting the process refuses',
      (t) => t.replace("TACIT_SWAGGER: 'off'", "TACIT_SWAGGER: 'maybe'"),
      'TACIT_SWAGGER: expected on or off',
    ],
    ['for text that is no plain YAML', () => 'services: {}', /^compose file: line 1/],
  ]
  for (const [why, edit, fault] of edits)
    test(why, () => {
      const edited = edit(COMPOSE)
      expect(edited).not.toBe(COMPOSE)
      expect(faultsOf(edited)).toContainEqual(
        typeof fault === 'string' ? fault : expect.stringMatching(fault),
      )
    })

  test('for a malformed KMS pin', () => {
    expect(faultsOf(COMPOSE, { key_provider_id: 'zz' })[0]).toMatch(/lowercase hex/)
  })

  test('and then no file is written', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-manifest-'))
    try {
      const [compose, out] = [join(folder, 'compose.yaml'), join(folder, 'app-compose.json')]
      writeFileSync(compose, COMMITTED)
      const partly = run(ROOT, '--compose', compose, '--out', out, '--set', FILLED[0]!)
      expect(partly.exitCode).toBe(1)
      expect(partly.errors).toContain('SOLANA_RPC_URL: still SET_ME')
      expect(readFileSync(compose, 'utf8')).toBe(COMMITTED)
      expect(existsSync(out)).toBe(false)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('when another tool added a script or opened the logs', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-manifest-'))
    const path = join(folder, 'app-compose.json')
    const foreign = { ...JSON.parse(filledManifest().text), pre_launch_script: 'echo', public_logs: true }
    writeFileSync(path, JSON.stringify(foreign))
    const { errors, exitCode } = run(ROOT, '--check', path)
    rmSync(folder, { recursive: true })
    expect(exitCode).toBe(1)
    expect(errors).toContain('pre_launch_script: not an allowed key')
    expect(errors).toContain('public_logs: must be false')
  })
})

test('filling in a value leaves every other line as it is', () => {
  const before = COMMITTED.split('\n')
  const after = fillIn(COMMITTED, ['TACIT_TLS_NAMES=venue.example']).split('\n')
  expect(after.length).toBe(before.length)
  expect(after.filter((line, at) => line !== before[at])).toEqual(["      TACIT_TLS_NAMES: 'venue.example'"])
  expect(parsePlainYaml(after.join('\n')).has('services')).toBe(true)
  for (const wrong of ['TACIT_NOTHING=1', 'image', "image=a'b", '=x'])
    expect(() => fillIn(COMMITTED, [wrong])).toThrow(RangeError)
})

test("the guide's command writes the secrets for their owner alone", () => {
  const guide = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
  const command = guide
    .split('\n')
    .find((line) => line.includes('> secrets.env') || line.includes('secrets.env  '))
  const folder = mkdtempSync(join(tmpdir(), 'tacit-secrets-'))
  try {
    writeFileSync(join(folder, 'secrets.env'), 'old', { mode: 0o644 })
    const { exitCode } = Bun.spawnSync(['sh', '-c', `umask 022; ${command}`], { cwd: folder })
    expect(exitCode).toBe(0)
    expect(readFileSync(join(folder, 'secrets.env'), 'utf8')).toMatch(/^TACIT_FEE_ANCHOR=0[0-9a-f]{63}\n$/)
    expect(statSync(join(folder, 'secrets.env')).mode & 0o777).toBe(0o600)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
