/** An error of the system at the start is given with its cause and what to do; the errors are the system's own. */
import { expect, test } from 'bun:test'
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
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
