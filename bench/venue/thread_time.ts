/** Reads what processor time the main thread of this process has used. */
import { readFileSync } from 'node:fs'

/** Linux counts in ticks of 10 ms (proc(5), `utime` and `stime`). */
const TICK_MS = 10

/** Undefined where there is no /proc. */
export function mainThreadMs(): number | undefined {
  try {
    const line = readFileSync(`/proc/self/task/${process.pid}/stat`, 'utf8')
    // The name stands in parentheses and may hold spaces.
    const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK_MS
  } catch {
    return undefined
  }
}
