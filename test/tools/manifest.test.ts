/** The manifest: same bytes from every clone, nothing hidden in it, and none at all while a value is missing. */

import { describe, expect, test } from 'bun:test'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parsePlainYaml } from '../../client/verify/manifest/plain_yaml'
import { SETTING_NAMES } from '../../server/settings/settings'
import { SECRET_NAMES, venueService } from '../../tools/manifest/lint_service'
import { composeHash, fillIn, type ManifestDecisions, makeManifest } from '../../tools/manifest/make_manifest'

const ROOT = join(import.meta.dir, '../..')
const COMMITTED = readFileSync(join(ROOT, 'compose.yaml'), 'utf8')
const KEY = 'So11111111111111111111111111111111111111112'
const FILLED = [
  `image=registry.example/tacit@sha256:${'ab'.repeat(32)}`,
  'SOLANA_RPC_URL=https://one.example,https://two.example/path',
  `TACIT_PROGRAM_ID=${KEY}`,
  `TACIT_OPERATOR_KEY=${KEY}`,
  `TACIT_FEE_KEY=${KEY}`,
]
const COMPOSE = fillIn(COMMITTED, FILLED)
const DECISIONS: ManifestDecisions = { name: 'tacit', os: '0.6', key_provider: 'kms', secure_time: false }
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
  test('names every setting and nothing else', () => {
    const environment = venueService(COMMITTED)!.get('environment')
    expect([...(environment as Map<string, unknown>).keys()].sort()).toEqual([...SETTING_NAMES].sort())
  })

  test('is refused until an operator filled in what only he knows, each named', () => {
    const faults = faultsOf(COMMITTED)
    for (const name of FILLED.map((one) => one.split('=')[0]!))
      expect(faults.filter((fault) => fault.startsWith(`${name}: still SET_ME`)).length).toBe(1)
    expect(faults).toContain('service venue has no image by digest')
  })

  test('takes only secrets from outside', () => {
    expect(filledManifest().allowed_envs).toEqual(['TACIT_FEE_ANCHOR'])
    expect(SECRET_NAMES).toContain('TACIT_FEE_ANCHOR')
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
    expect(manifest).toMatchObject({ public_logs: false, public_sysinfo: false, secure_time: false })
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

  test('speaks to each guest OS line in its own version', () => {
    expect(JSON.parse(filledManifest({ os: '0.5' }).text)).toMatchObject({ manifest_version: 2 })
    expect(JSON.parse(filledManifest().text)).toMatchObject({
      manifest_version: '3',
      requirements: { health_check: true },
    })
  })

  test('changes its hash with every decision', () => {
    const hashes = [
      {},
      { os: '0.5' as const },
      { name: 'other' },
      { secure_time: true },
      { key_provider_id: 'ab'.repeat(45) },
    ].map((decisions) => filledManifest(decisions).compose_hash)
    expect(new Set(hashes).size).toBe(hashes.length)
  })
})

describe('a manifest is refused', () => {
  const edits: [string, (text: string) => string, string | RegExp][] = [
    [
      'for an image by tag',
      (t) => t.replace(/@sha256:[0-9a-f]+/, ':latest'),
      'service venue has no image by digest',
    ],
    [
      'for an image built in place',
      (t) => t.replace('    image:', '    build: .\n    image:'),
      'service venue uses build',
    ],
    [
      'for settings from a file',
      (t) => t.replace('    image:', '    env_file: x\n    image:'),
      'service venue uses env_file',
    ],
    ['for a key no rule covers', (t) => t.replace('    image:', '    pid: host\n    image:'), /uses pid/],
    [
      'for a second service',
      (t) => t.replace('\nvolumes:', '\n  other:\n    image: x\nvolumes:'),
      'service other has no image by digest',
    ],
    ['for a shell port', (t) => t.replace('8444:8444', '2222:22'), 'service venue publishes a shell port'],
    [
      'for one port for both',
      (t) => t.replace('8444:8444', '443:8444'),
      'ports: the operator has one of its own',
    ],
    ['for a folder of the host', (t) => t.replace('- ledger:/data', '- /srv:/data'), /^volumes:/],
    ['for running as root', (t) => t.replace("'10001:10001'", "'0:0'"), /^user:/],
    ['for a writable root', (t) => t.replace('read_only: true', 'read_only: false'), /^read_only:/],
    [
      'for an unknown setting',
      (t) => t.replace('TACIT_SWAGGER:', 'TACIT_SWAGER:'),
      'TACIT_SWAGER: no such setting',
    ],
    [
      'for a loader variable',
      (t) => t.replace("      TACIT_SWAGGER: 'off'", "      TACIT_SWAGGER: 'off'\n      NODE_OPTIONS: x"),
      'NODE_OPTIONS: no such setting',
    ],
    [
      'for a missing setting',
      (t) => t.replace(/ +TACIT_SWAGGER:.*\n/, ''),
      /^TACIT_SWAGGER: not in the manifest/,
    ],
    [
      'for a security value from outside',
      (t) => t.replace(/TACIT_OPERATOR_KEY: .*/, `TACIT_OPERATOR_KEY: ${fromOutside('TACIT_OPERATOR_KEY')}`),
      'its compose file takes TACIT_OPERATOR_KEY from the environment',
    ],
    [
      'for a value spliced from a secret',
      (t) => t.replace(/TACIT_FEE_KEY: .*/, `TACIT_FEE_KEY: ${fromOutside('TACIT_FEE_ANCHOR')}`),
      /^TACIT_FEE_KEY: must be literal/,
    ],
    [
      'for a secret in the open',
      (t) => t.replace(fromOutside('TACIT_FEE_ANCHOR'), `'${'0'.repeat(63)}1'`),
      /^TACIT_FEE_ANCHOR: secret/,
    ],
    [
      'for one chain provider',
      (t) => t.replace(',https://two.example/path', ',https://one.example/b'),
      /two providers/,
    ],
    ['for a chain in the clear', (t) => t.replace('https://two', 'http://two'), /https only/],
    [
      'for an instrument the engine refuses',
      (t) => t.replace('"lot_size":"1000000"', '"lot_size":"1000001"'),
      /instruments\[0\]/,
    ],
    [
      'for quotes nobody trusts',
      (t) => t.replace('TACIT_ENCLAVE: dstack', 'TACIT_ENCLAVE: development'),
      'TACIT_ENCLAVE: a deployment runs on dstack',
    ],
  ]
  for (const [why, edit, fault] of edits)
    test(why, () => {
      const edited = edit(COMPOSE)
      expect(edited).not.toBe(COMPOSE)
      expect(faultsOf(edited)).toContainEqual(
        typeof fault === 'string' ? fault : expect.stringMatching(fault),
      )
    })

  test('where its secrets cannot be delivered, or its KMS pin would not boot', () => {
    expect(faultsOf(COMPOSE, { key_provider: 'none' })).toEqual([
      'key_provider: TACIT_FEE_ANCHOR can only be delivered under a KMS',
    ])
    expect(faultsOf(COMPOSE, { os: '0.5', key_provider_id: 'ab'.repeat(45) })[0]).toMatch(/restarts for ever/)
    expect(faultsOf(COMPOSE, { key_provider_id: 'zz' })[0]).toMatch(/lowercase hex/)
  })

  test('when another tool added a script or opened the logs', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-manifest-'))
    const path = join(folder, 'app-compose.json')
    const foreign = { ...JSON.parse(filledManifest().text), pre_launch_script: 'echo', public_logs: true }
    writeFileSync(path, JSON.stringify(foreign))
    const { errors, exitCode } = run(ROOT, '--check', path)
    rmSync(folder, { recursive: true })
    expect(exitCode).toBe(1)
    expect(errors).toContain('it runs a pre_launch_script')
    expect(errors).toContain('it does not keep its logs private')
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
