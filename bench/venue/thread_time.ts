/** Reads the processor time of this process's threads, by role. */
import { readdirSync, readFileSync } from 'node:fs'

export type ThreadTimes = {
  /** The main thread: everything a request waits for but the disk. */
  main_ms: number
  /** Threads of ours: journal, history, hashing. */
  workers_ms: number
  /** The runtime compiles: much while it warms up, little afterwards. */
  compiling_ms: number
  /** Garbage collection and memory release outside the main thread. */
  collecting_ms: number
}

const TASKS = '/proc/self/task'

/** Undefined where there is no /proc. */
export function threadTimes(): ThreadTimes | undefined {
  try {
    const times = { main_ms: 0, workers_ms: 0, compiling_ms: 0, collecting_ms: 0 }
    for (const id of readdirSync(TASKS)) {
      // Nanoseconds on a core come first (proc(5), `schedstat`).
      const on_core = readFileSync(`${TASKS}/${id}/schedstat`, 'latin1').split(' ')[0]
      times[kindOf(id)] += Number(on_core) / 1e6
    }
    return times
  } catch {
    return undefined
  }
}

function kindOf(id: string): keyof ThreadTimes {
  if (Number(id) === process.pid) return 'main_ms'
  const name = readFileSync(`${TASKS}/${id}/comm`, 'latin1')
  if (name.startsWith('JIT') || name.startsWith('JSC')) return 'compiling_ms'
  return name.startsWith('Heap') || name.startsWith('mi-') ? 'collecting_ms' : 'workers_ms'
}
