/**
 * Runs the venue for a developer. When a source changes it writes the route manifest, loads the code in a separate process and,
 * if that succeeds, restarts the venue; otherwise it prints the reason and the running venue keeps serving.
 */
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { currentRoutes, ROUTES, writeManifest } from './routes_manifest'

const ROOT = join(import.meta.dir, '..')
const MAIN = join(ROOT, 'server/main.ts')
/** Folders whose code the venue runs. */
const OWN = ['protocol', 'native', 'engine', 'enclave', 'server', 'routes', 'client/verify', 'sandbox']
const SOURCES = [...OWN, 'tools/account', 'tools/program']
/** Polling takes under 2 ms and, unlike file events, sees new folders and works on every mounted file system. */
const POLL_MS = 200
const LOAD_MS_MAX = 20_000

if (process.argv[2] === '--load') {
  const problem = await loadProblem()
  if (problem !== undefined) console.log(problem)
  process.exit(problem === undefined ? 0 : 1)
}

let venue: Subprocess | undefined
let ending = false
/** Until a source changes, the venue's exit code is that of this command. */
let has_changed = false

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    ending = true
    if (venue === undefined) process.exit(signal === 'SIGINT' ? 130 : 143)
    // A signal to the whole process group reaches the venue twice; it ignores a SIGINT that follows at once.
    venue.kill('SIGINT')
  })
}

let known = snapshot()
await refresh([])
let pending: string[] = []
while (!ending) {
  await Bun.sleep(POLL_MS)
  const now = snapshotOrNone()
  if (now === undefined) continue
  const changed = differences(known, now)
  known = now
  pending.push(...changed)
  // Once the files are still: an editor or git may be writing several.
  if (changed.length > 0 || pending.length === 0) continue
  has_changed = true
  const settled = pending
  pending = []
  await refresh([...new Set(settled)])
}

/** The sources, each with a mark that changes when it is saved. */
function snapshot(): Map<string, string> {
  const files = new Map<string, string>()
  for (const folder of SOURCES) {
    for (const name of readdirSync(join(ROOT, folder), { recursive: true }) as string[]) {
      if (!/\.(ts|so)$/.test(name) || name.endsWith('.gen.ts')) continue
      const stat = statSync(join(ROOT, folder, name), { throwIfNoEntry: false })
      if (stat !== undefined) files.set(`${folder}/${name}`, `${stat.mtimeMs} ${stat.size} ${stat.ino}`)
    }
  }
  return files
}

/** None while a folder that is being read disappears. */
function snapshotOrNone(): Map<string, string> | undefined {
  try {
    return snapshot()
  } catch {
    return undefined
  }
}

function differences(before: Map<string, string>, after: Map<string, string>): string[] {
  const paths = new Set([...before.keys(), ...after.keys()])
  return [...paths].filter((path) => before.get(path) !== after.get(path))
}

/** Restarts the venue with the current sources if they load. */
async function refresh(changed: readonly string[]): Promise<void> {
  const problem = manifestProblem() ?? (await problemOfLoading(changed))
  if (ending) return
  if (problem !== undefined) {
    const state =
      venue === undefined ? 'The venue does not run' : 'The running venue keeps serving without it'
    return say(
      `${problem}${problem.endsWith('.') ? '' : '.'} ${state}; correct the file and save it: dev tries again by itself.`,
    )
  }
  if (changed.length > 0) {
    say(`changed: ${listed(changed)}. The venue restarts.`)
  }
  await stop()
  if (!ending) start()
}

function listed(paths: readonly string[]): string {
  return paths.slice(0, 3).join(', ') + (paths.length > 3 ? ` and ${paths.length - 3} more` : '')
}

function manifestProblem(): string | undefined {
  try {
    writeManifest()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

function start(): void {
  const child = Bun.spawn([process.execPath, MAIN, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit'],
  })
  venue = child
  void child.exited.then((code) => {
    if (venue !== child) return
    venue = undefined
    if (ending || code === 0 || !has_changed) process.exit(code)
    say(`the venue ended with code ${code}; its last lines say why. It starts again when a source is saved.`)
  })
}

/** As `kill -9`: acknowledged commands are on disk, and a drain would wait for the settlement of a batch. */
async function stop(): Promise<void> {
  const child = venue
  venue = undefined
  child?.kill('SIGKILL')
  await child?.exited
}

/** Loads the sources in a separate process: a module is loaded once per process. */
async function problemOfLoading(changed: readonly string[]): Promise<string | undefined> {
  const child = Bun.spawn([process.execPath, import.meta.path, '--load'], {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LOAD_MS_MAX,
    killSignal: 'SIGKILL',
  })
  const [problem, error] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  if ((await child.exited) === 0) return undefined
  if (child.signalCode === 'SIGKILL')
    return `the sources did not load within ${LOAD_MS_MAX / 1000} s; changed: ${listed(changed)}.`
  return (problem || error).trim()
}

async function loadProblem(): Promise<string | undefined> {
  for (const { file } of currentRoutes()) {
    const name = `routes/${file}`
    try {
      const { default: route } = await import(join(ROUTES, file))
      if (route?.kind === 'endpoint' || route?.kind === 'stream') continue
      return `${name} has no route. Write \`export default endpoint({ ... }, handler)\` into it, or remove the file.`
    } catch (error) {
      return `${name} does not load: ${reasonOf(error)}`
    }
  }
  try {
    await import('../server/edge/app')
    await import('../sandbox/open_sandbox')
    return undefined
  } catch (error) {
    return `the server does not load: ${reasonOf(error)}`
  }
}

/** Message and place of an error; those of the transpiler carry a position, others a stack. */
function reasonOf(error: unknown): string {
  const first = error instanceof AggregateError ? error.errors[0] : error
  const {
    message = String(first),
    position,
    stack = '',
  } = (first ?? {}) as Partial<Error> & {
    position?: { file: string; line: number } | null
  }
  const frame = stack.split('\n').find((line) => line.includes(`${ROOT}/`))
  const place = position ? `${position.file}:${position.line}` : /\/[^()\s]+:\d+/.exec(frame ?? '')?.[0]
  return `${message.replaceAll(`${ROOT}/`, '')}${place === undefined ? '' : ` (${place.replace(`${ROOT}/`, '')})`}`
}

function say(text: string): void {
  console.error(`\ndev: ${text}\n`)
}
