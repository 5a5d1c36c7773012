/** Starts the server from a build without the sandbox and without development packages, as the image contains it. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { devDependencies } from '../../package.json'

const ROOT = join(import.meta.dir, '../..')
const IMAGE = [
  'server',
  'routes',
  'engine',
  'enclave',
  'protocol',
  'native',
  'client/verify',
  'client/limits.ts',
  'docs',
  'SECURITY.md',
  'package.json',
  'tsconfig.json',
]
const build = mkdtempSync(join(tmpdir(), 'tacit-no-sandbox-'))

beforeAll(() => {
  for (const name of IMAGE) cpSync(join(ROOT, name), join(build, name), { recursive: true })
  mkdirSync(join(build, 'node_modules'))
  const development = new Set(Object.keys(devDependencies).map((name) => name.split('/')[0]!))
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!development.has(name))
      symlinkSync(join(ROOT, 'node_modules', name), join(build, 'node_modules', name))
})
afterAll(() => rmSync(build, { recursive: true, force: true }))

function check(settings: Record<string, string>): string {
  const env = { PATH: process.env['PATH'] ?? '', TACIT_DATA_DIR: join(build, 'data'), ...settings }
  const command = [process.execPath, 'server/main.ts', '--check']
  const { exitCode, stderr } = Bun.spawnSync(command, { cwd: build, env, stdout: 'pipe', stderr: 'pipe' })
  expect(exitCode).toBe(1)
  return stderr.toString()
}

const NEXT =
  'this build does not contain it (the folder sandbox/ is missing). On an attested machine set TACIT_ENCLAVE=dstack; ' +
  'to try the venue, run `bun run dev` in a checkout of the repository'

test('TACIT_ENCLAVE=development is rejected with the reason and the next step', () => {
  expect(check({ TACIT_ENCLAVE: 'development' })).toBe(
    `settings rejected:\nTACIT_ENCLAVE: development needs the sandbox, and ${NEXT}\n`,
  )
})

const on_attested_machine = existsSync('/var/run/dstack.sock')
test.skipIf(on_attested_machine)(
  'a missing TACIT_ENCLAVE is rejected with the reason and the next step',
  () => {
    expect(check({})).toBe(
      'settings rejected:\nTACIT_ENCLAVE: not set, and no guest agent listens on /var/run/dstack.sock, so the venue needs the ' +
        `sandbox, and ${NEXT}\n`,
    )
  },
)

test('TACIT_ENCLAVE=dstack needs no sandbox: the other settings are checked', () => {
  expect(check({ TACIT_ENCLAVE: 'dstack' })).toContain('TACIT_OPERATOR_KEY: required')
})

test('a sandbox whose package is not installed is rejected with the name of the package', () => {
  mkdirSync(join(build, 'sandbox'))
  writeFileSync(join(build, 'sandbox/open_sandbox.ts'), "import 'litesvm'\n")
  const message = check({ TACIT_ENCLAVE: 'development' })
  expect(message).toStartWith(
    'settings rejected:\nTACIT_ENCLAVE: development needs the sandbox, which does not load: ',
  )
  expect(message).toContain("'litesvm'")
  expect(message).toEndWith('Run `bun install` in a complete checkout\n')
})
