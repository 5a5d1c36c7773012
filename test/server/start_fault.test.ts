/** Starts without the sandbox, as in the image, and with an error of the system, which is given with its cause and what to do. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { devDependencies } from '../../package.json'
import { startFault } from '../../server/settings/at_start'

const MAIN = join(import.meta.dir, '../../server/main.ts')

function errorOf(act: () => void): unknown {
  try {
    act()
  } catch (error) {
    return error
  }
  throw new Error('nothing failed')
}

test('a full device, a missing file and a file in place of a folder are named with what to do', () => {
  const full = errorOf(() => {
    const fd = openSync('/dev/full', 'w')
    try {
      writeSync(fd, 'x')
    } finally {
      closeSync(fd)
    }
  })
  expect(startFault(full, '/data')).toContain('/data: the volume is full')
  expect(
    startFault(
      errorOf(() => readFileSync('/nowhere/key')),
      '/data',
    ),
  ).toContain('/nowhere/key: a file or socket is missing')
  expect(
    startFault(
      errorOf(() => mkdirSync('/dev/null/data')),
      '/data',
    ),
  ).toContain('a file is where a folder is needed')
  expect(startFault(new Error('its own sentence'), '/data')).toBe('its own sentence')
})

test('the process prints the cause, without a stack', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'start-fault-'))
  try {
    writeFileSync(join(folder, 'stand-in'), '')
    const ports = { TACIT_LISTEN: '127.0.0.1:0', TACIT_OPERATOR_LISTEN: '127.0.0.1:0' }
    const env = { PATH: process.env['PATH'] ?? '', TACIT_DATA_DIR: folder, ...ports }
    const child = Bun.spawn([process.execPath, MAIN], { env, stdout: 'pipe', stderr: 'pipe' })
    const printed = await new Response(child.stderr).text()
    expect(await child.exited).toBe(1)
    expect(printed).toContain(`${join(folder, 'stand-in')}: a file is where a folder is needed`)
    expect(printed).not.toMatch(/^ +at /m)
  } finally {
    rmSync(folder, { recursive: true })
  }
}, 120_000)

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
