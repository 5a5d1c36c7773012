/** Returns the memory of dropped objects once a thread is idle: an idle thread collects nothing by itself. */

// Gives the memory of large bytes back at once: a collection may come late, and an old reference that it finds on the
// stack keeps them for as long as the thread idles. They have no length from here on, as has every view of them.

export function letGo(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}

// Gives back the memory of what a thread has dropped, once it has little to do: one that idles collects nothing.

/** A collection of a thread's few objects takes some milliseconds, so a thread at work is left alone. */
const QUIET_MS = 1_000
/** A venue without orders still journals every slot: so few pieces of work in that time are no load. */
const TRICKLE_MAX = 16
/** Among them one collects once so many pieces have left their garbage. */
const OWED_MIN = 256

/** Returns what to call at every piece of work. */
export function collectWhenQuiet(collect = () => Bun.gc(true), quiet_ms = QUIET_MS): () => void {
  /** Since the last look, and since the last collection. */
  let pieces = 0
  let owed = 0
  let timer: ReturnType<typeof setInterval> | undefined
  const look = () => {
    const quiet = pieces === 0
    owed += pieces
    const trickles = pieces <= TRICKLE_MAX && owed >= OWED_MIN
    pieces = 0
    if (!quiet && !trickles) return
    owed = 0
    if (quiet) {
      clearInterval(timer)
      timer = undefined
    }
    collect()
  }
  return () => {
    pieces++
    timer ??= setInterval(look, quiet_ms)
  }
}
