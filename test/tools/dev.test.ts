/** `dev` as a developer runs it: route files come, break, move and go while it runs, and Ctrl-C ends every process. */
import { afterAll, expect, test } from 'bun:test'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scripts } from '../../package.json'

const ROOT = join(import.meta.dir, '../..')
/** Not needed to run a venue; and `dev` must not write into this copy's packages. */
const LEFT_OUT = ['node_modules', '.git', 'dist', 'data', 'test', 'bench', 'program/target']
const STEP_MS = 90_000

const scratch = mkdtempSync(join(tmpdir(), 'tacit-dev-'))
const data_dir = join(scratch, 'data')
const left_out = new Set(LEFT_OUT.map((name) => join(ROOT, name)))
cpSync(ROOT, scratch, { recursive: true, filter: (path) => !left_out.has(path) })
symlinkSync(join(ROOT, 'node_modules'), join(scratch, 'node_modules'))

const main = scripts.dev.split(' ').at(-1)!
const dev = Bun.spawn([process.execPath, main], {
  cwd: scratch,
  env: {
    PATH: process.env['PATH'] ?? '',
    TACIT_DATA_DIR: data_dir,
    TACIT_LISTEN: '127.0.0.1:0',
    TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    TACIT_SLOT_MS: '25',
  },
  stdout: 'ignore',
  stderr: 'pipe',
  // A separate process group, as a terminal gives a command.
  detached: true,
})
let printed = ''
const printing = (async () => {
  for await (const bytes of dev.stderr) printed += new TextDecoder().decode(bytes)
})()

afterAll(() => {
  if (isGroupAlive()) process.kill(-dev.pid, 'SIGKILL')
  rmSync(scratch, { recursive: true, force: true })
})

function isGroupAlive(): boolean {
  try {
    process.kill(-dev.pid, 0)
    return true
  } catch {
    return false
  }
}

/** Polls until `check` gives true; a failing check is one more poll. */
async function until(name: string, check: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + STEP_MS
  while (performance.now() < deadline) {
    if (dev.exitCode !== null) break
    if (
      await Promise.resolve()
        .then(check)
        .catch(() => false)
    )
      return
    await Bun.sleep(25)
  }
  throw new Error(`no ${name} within ${STEP_MS} ms; dev printed:\n${printed}`)
}

async function statusOf(path: string): Promise<number> {
  const { url, certificate } = JSON.parse(readFileSync(join(data_dir, 'laptop.json'), 'utf8'))
  const answer = await fetch(url + path, { tls: { ca: readFileSync(certificate, 'utf8') } })
  await answer.body?.cancel()
  return answer.status
}
const answers = (path: string, status: number) =>
  until(`${status} of ${path}`, async () => (await statusOf(path)) === status)
const prints = (text: string, from: number) =>
  until(`message "${text}"`, () => printed.slice(from).includes(text))

test('route files come, break, move and go without a restart of dev, and Ctrl-C ends every process', async () => {
  const file = (name: string) => join(scratch, 'routes', name)
  const route = readFileSync(file('instruments/[symbol].get.ts'), 'utf8')
  await answers('/time', 200)
  expect(await statusOf('/added/SOL-USDC')).toBe(404)

  // A new file in a new folder.
  mkdirSync(file('added'))
  writeFileSync(file('added/[symbol].get.ts'), route)
  await answers('/added/SOL-USDC', 200)

  // A file that throws: the message names it, and the venue keeps serving.
  let mark = printed.length
  writeFileSync(file('added/[symbol].get.ts'), `${route}\nthrow new Error('broken on purpose')\n`)
  await prints('routes/added/[symbol].get.ts does not load: broken on purpose', mark)
  await prints('The running venue keeps serving without it;', mark)
  expect(await statusOf('/added/SOL-USDC')).toBe(200)

  // A file without a route, and one that is misnamed.
  mark = printed.length
  writeFileSync(file('added/[symbol].get.ts'), '')
  await prints('routes/added/[symbol].get.ts has no route.', mark)
  mark = printed.length
  writeFileSync(file('misnamed.ts'), route)
  await prints('routes/misnamed.ts: this is not the name of a route.', mark)
  expect(printed).not.toMatch(/^ +at /m)

  // Corrected and renamed.
  rmSync(file('misnamed.ts'))
  writeFileSync(file('added/[symbol].get.ts'), route)
  renameSync(file('added'), file('moved'))
  await answers('/moved/SOL-USDC', 200)
  expect(await statusOf('/added/SOL-USDC')).toBe(404)

  rmSync(file('moved'), { recursive: true })
  await answers('/moved/SOL-USDC', 404)
  expect(await statusOf('/time')).toBe(200)

  // As a terminal sends Ctrl-C.
  process.kill(-dev.pid, 'SIGINT')
  expect(await dev.exited).toBe(0)
  await printing
  expect(isGroupAlive()).toBe(false)
}, 120_000)
