/** Returns memory early: of dropped objects once a thread is idle, as it collects nothing by itself, and of large bytes. */

/** A collection takes milliseconds, 15 with a million orders, so it waits until the thread has had no work this long. */
const QUIET_MS = 1_000
/** Tasks per `QUIET_MS` that still count as light load: a venue without orders journals every slot. */
const TRICKLE_MAX = 16
/** Tasks since the last collection before a lightly loaded thread collects. */
const OWED_MIN = 256

/** Returns a function that the thread calls for each task. */
export function collectWhenQuiet(collect = () => Bun.gc(true), quiet_ms = QUIET_MS): () => void {
  /** Tasks since the last tick of the timer, and since the last collection. */
  let recent = 0
  let owed = 0
  let timer: ReturnType<typeof setInterval> | undefined
  const tick = () => {
    const quiet = recent === 0
    owed += recent
    const trickles = recent <= TRICKLE_MAX && owed >= OWED_MIN
    recent = 0
    if (!quiet && !trickles) return
    owed = 0
    if (quiet) {
      clearInterval(timer)
      timer = undefined
    }
    collect()
  }
  return () => {
    recent++
    timer ??= setInterval(tick, quiet_ms).unref()
  }
}

/**
 * Releases the memory of large bytes at once. A collection may come late, and a stale reference on the stack keeps the
 * bytes alive while the thread idles. Afterwards they and every view of them have length 0.
 */
export function releaseBytes(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (buffer instanceof ArrayBuffer) buffer.transfer(0)
}
