/** Measures how long the event loop of this process stands still. */

/** Interval at which the loop is felt. */
const TICK_MS = 1

export type LoopGauge = {
  /** The longest pause since the last call, in milliseconds, beyond the interval itself. */
  takeMax(): number
}

export function openLoopGauge(): LoopGauge {
  let last_ms = performance.now()
  let max_ms = 0
  const timer = setInterval(() => {
    const now_ms = performance.now()
    max_ms = Math.max(max_ms, now_ms - last_ms - TICK_MS)
    last_ms = now_ms
  }, TICK_MS)
  timer.unref()
  return {
    takeMax() {
      const taken = max_ms
      max_ms = 0
      return taken
    },
  }
}
