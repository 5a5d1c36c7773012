/**
 * `AbortSignal` and `AbortController` of the product without their native parts: the runtime keeps a native signal that has a
 * listener, and with it a process of the simulation that ended while it waited.
 */
class Signal extends EventTarget {
  aborted = false
  reason: unknown

  abort(reason: unknown = new DOMException('The operation was aborted.', 'AbortError')): void {
    if (this.aborted) return
    this.aborted = true
    this.reason = reason
    this.dispatchEvent(new Event('abort'))
  }
  throwIfAborted(): void {
    if (this.aborted) throw this.reason
  }
}

/** @param later calls a function after milliseconds of simulated time */
export function simulateAbort(later: (ms: number, happen: () => void) => unknown): void {
  class Controller {
    readonly signal = new Signal()
    abort = (reason?: unknown): void => this.signal.abort(reason)
  }
  const timeout = (ms: number): Signal => {
    const signal = new Signal()
    later(ms, () => signal.abort(new DOMException('The operation timed out.', 'TimeoutError')))
    return signal
  }
  const any = (of: readonly Signal[]): Signal => {
    const signal = new Signal()
    for (const one of of) {
      if (one.aborted) signal.abort(one.reason)
      one.addEventListener('abort', () => signal.abort(one.reason))
    }
    return signal
  }
  const put = (name: string, value: unknown) =>
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true })
  put('AbortController', Controller)
  put('AbortSignal', Object.assign(Signal, { timeout, any }))
}
