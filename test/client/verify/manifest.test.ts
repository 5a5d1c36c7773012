/** The linter finds what an operator could hide in a manifest. */
import { describe, expect, test } from 'bun:test'
import { lintManifest } from '../../../client/verify/manifest/lint_manifest'
import { parsePlainYaml, UnjudgedYaml } from '../../../client/verify/manifest/plain_yaml'

const DIGEST = `@sha256:${'ab'.repeat(32)}`
const COMPOSE = `
# The venue.
services:
  venue:
    image: registry.example/tacit${DIGEST} # pinned
    restart: unless-stopped
    command: ["bun", "server/main.ts"]
    ports:
      - "443:443"
    volumes:
      - /var/run/dstack.sock:/var/run/dstack.sock
      - data:/data
    environment:
      TACIT_LISTEN: '0.0.0.0:443'
      OPERATOR_SECRET: \${OPERATOR_SECRET}
volumes:
  data:
`
const NAMES = ['OPERATOR_SECRET']
const manifest = (change: object = {}, compose = COMPOSE): string =>
  JSON.stringify({
    manifest_version: 2,
    name: 'tacit',
    runner: 'docker-compose',
    docker_compose_file: compose,
    public_logs: false,
    allowed_envs: NAMES,
    ...change,
  })
const lint = (text: string) => lintManifest(text, NAMES)
const lintCompose = (from: string, to: string) => {
  expect(COMPOSE).toContain(from)
  return lint(manifest({}, COMPOSE.replace(from, to)))
}

test('a clean manifest has no fault', () => {
  expect(lint(manifest())).toEqual([])
})

describe('manifest', () => {
  const faults: Record<string, object> = {
    'public logs': { public_logs: true },
    'logs left to a default': { public_logs: undefined },
    'a script before launch': { pre_launch_script: 'sshd' },
    'a script at init': { init_script: 'true' },
    'an unlisted environment name': { allowed_envs: ['OPERATOR_SECRET', 'LD_PRELOAD'] },
    'environment names that are no list': { allowed_envs: 'OPERATOR_SECRET' },
    'another runner': { runner: 'bash' },
    'no compose file': { docker_compose_file: undefined },
  }
  for (const [name, change] of Object.entries(faults))
    test(`${name} is a fault`, () => {
      expect(lint(manifest(change)).length).toBe(1)
    })
  test('text that is no manifest is a fault', () => {
    for (const text of ['', '[]', 'null', '1', '{']) expect(lint(text).length).toBe(1)
  })
})

describe('compose file', () => {
  const image = `registry.example/tacit${DIGEST}`
  const faults: [name: string, from: string, to: string][] = [
    ['an image by tag', image, 'registry.example/tacit:latest'],
    ['an image by cut digest', image, 'registry.example/tacit@sha256:abcd'],
    ['an image from the environment', image, '$IMAGE'],
    ['a build', '    restart: unless-stopped', '    build: .'],
    ['a privileged container', '    restart: unless-stopped', '    privileged: true'],
    ['another file included', 'volumes:\n  data:', 'include:\n  - other.yaml'],
    ['a shell port', '"443:443"', '"2222:22"'],
    ['a remote shell', '["bun", "server/main.ts"]', '["/usr/sbin/sshd", "-D"]'],
    ['an environment name passed through', "TACIT_LISTEN: '0.0.0.0:443'", 'LD_PRELOAD:'],
    ['an environment name interpolated', "'0.0.0.0:443'", `\${LISTEN:-x}`],
    ['no services', 'services:', 'others:'],
    ['a service without anything', '  venue:\n', '  empty:\n  venue:\n'],
  ]
  for (const [name, from, to] of faults)
    test(`${name} is a fault`, () => {
      expect(lintCompose(from, to).length).toBeGreaterThan(0)
    })
  test('environment as a list is judged too', () => {
    const compose = COMPOSE.replace(
      / {4}environment:[\s\S]*?volumes:\n {2}data/,
      '    environment:\n      - A=1\n      - B\nvolumes:\n  data',
    )
    expect(lint(manifest({}, compose))).toEqual(['service venue takes B from the environment'])
  })
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
    '- a',
    'a:\n  - b: c',
    'a:\n  - - b',
    'a: [b,\n  c]',
    'a: [{b: c}]',
    '---\na: b',
    'a: b\n...',
    '%YAML 1.1',
    'a:\tb',
    'a: b\r\nc: d',
    'a: # x\u2028b: c',
    '<<: b',
    'a:\n    b: c\n  d: e',
    '',
  ]
  for (const text of texts) expect(() => parsePlainYaml(text)).toThrow(UnjudgedYaml)
})

test('plain YAML is read as docker reads it', () => {
  const text = 'a: b # c\nd:\n- e\n- "f: g"\nh:\n  i: \'j # k\'\n  l: []\n  m: [n, "o p"]\nq: ~\nr:\n'
  const map = parsePlainYaml(text)
  expect(map.get('a')).toBe('b')
  expect(map.get('d')).toEqual(['e', 'f: g'])
  expect(map.get('h')).toEqual(
    new Map<string, string | string[]>([
      ['i', 'j # k'],
      ['l', []],
      ['m', ['n', 'o p']],
    ]),
  )
  expect([map.get('q'), map.get('r')]).toEqual([null, null])
  const plain = text.replace("'j # k'", 'j')
  const native = Bun.YAML.parse(plain) as Record<string, unknown>
  expect(Object.keys(native)).toEqual([...map.keys()])
})
