/** The history's thread yields to the threads that answer requests. */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { withFolder, withHistory } from './account_events'

/** proc(5): the nice value is the 17th field after the name. */
function niceOf(stat_path: string): number {
  const stat = readFileSync(stat_path, 'latin1')
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
}

/** Threads that yield to the main one. */
function yielding(): string[] {
  const own = niceOf('/proc/self/stat')
  return readdirSync('/proc/self/task').filter((id) => niceOf(`/proc/self/task/${id}/stat`) > own)
}

test.skipIf(process.platform !== 'linux')('where cores are short, writing the history waits', async () => {
  await withFolder(async (dir) => {
    const before = yielding()
    await withHistory(dir, async () => {
      expect(yielding().filter((id) => !before.includes(id)).length).toBeGreaterThan(0)
    })
  })
})
