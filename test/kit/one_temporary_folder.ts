/**
 * Preloaded by `bun test`: every temporary folder of a run lies in one, which goes when the run ends. The remains of a killed
 * run go when the next one begins.
 */
import { afterAll } from 'bun:test'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const NAME = /^tacit-test-(\d+)-/
const around = tmpdir()

for (const name of readdirSync(around)) {
  const pid = NAME.exec(name)?.[1]
  if (pid !== undefined && !isRunning(Number(pid))) remove(join(around, name))
}
const folder = mkdtempSync(join(around, `tacit-test-${process.pid}-`))
// `tmpdir()` looks at it each time.
process.env['TMPDIR'] = folder
afterAll(() => remove(folder))

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // Another user's process may not be signalled.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** As far as it is this user's and no process writes into it any more. */
function remove(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true, maxRetries: 3 })
  } catch {}
}
