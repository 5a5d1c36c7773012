/** Gives back the memory of what a thread has dropped, once it has nothing to do: one that idles collects nothing. */

/** A collection of a thread's few objects takes some milliseconds, so a thread at work is left alone. */
const QUIET_MS = 1_000

/** Returns what to call at every piece of work. */
export function collectWhenQuiet(collect = () => Bun.gc(true), quiet_ms = QUIET_MS): () => void {
  let worked = false
  let timer: ReturnType<typeof setInterval> | undefined
  const look = () => {
    if (worked) {
      worked = false
      return
    }
    clearInterval(timer)
    timer = undefined
    collect()
  }
  return () => {
    worked = true
    timer ??= setInterval(look, quiet_ms)
  }
}
