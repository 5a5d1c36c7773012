/** Measures this process by /proc: pauses of its event loop, and the processor time of its threads. */
import { existsSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'

/** Interval of the probe. */
const TICK_MS = 1

export type Pauses = {
  /** The longest since the last call, in milliseconds, beyond the interval itself. */
  worst_ms: number
  /** The same without the time the main thread was ready and given no core; NaN if the system does not report it. */
  own_worst_ms: number
}
export type LoopGauge = { takeWorst(): Pauses }

export function openLoopGauge(): LoopGauge {
  let last_ms = performance.now()
  let waited_ms = waitedForCoreMs()
  let worst: Pauses = { worst_ms: 0, own_worst_ms: 0 }
  const timer = setInterval(() => {
    const now_ms = performance.now()
    const waited_now_ms = waitedForCoreMs()
    const pause_ms = now_ms - last_ms - TICK_MS
    const own_ms = pause_ms - (waited_now_ms - waited_ms)
    worst = {
      worst_ms: Math.max(worst.worst_ms, pause_ms),
      own_worst_ms: Math.max(worst.own_worst_ms, own_ms),
    }
    last_ms = performance.now()
    waited_ms = waited_now_ms
  }, TICK_MS)
  timer.unref()
  return {
    takeWorst() {
      const taken = worst
      worst = { worst_ms: 0, own_worst_ms: 0 }
      return taken
    },
  }
}

/** The second number of schedstat: nanoseconds of the main thread in a run queue. */
function waitedForCoreMs(): number {
  if (schedstat === undefined) return Number.NaN
  const length = readSync(schedstat, text, 0, text.length, 0)
  return Number(text.toString('latin1', 0, length).split(' ')[1]) / 1e6
}

const text = Buffer.alloc(128)
/** Kept open, because it is read every millisecond. */
const schedstat = open(`/proc/self/task/${process.pid}/schedstat`)

function open(path: string): number | undefined {
  return existsSync(path) ? openSync(path, 'r') : undefined
}

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
