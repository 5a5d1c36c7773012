/**
 * Runs client code in simulated time: its timers, its clock and all network input happen one after the other, in
 * the order of a queue that a seed decides. Code outside of `inside` keeps the real clock.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { Slices } from '../../../engine/history/slices'

/** One process of a client; nothing reaches one that was killed. */
export class Life {
  alive = true
}
/** One call of a trader, and the requests that left the process for it. */
export type Doing = { readonly kind: string; readonly sent: Set<string> }
export type Context = { readonly life: Life; readonly doing: Doing }

type Due = {
  at_ms: number
  order: number
  run: () => unknown
  context: Context | undefined
  cancelled: boolean
}

export class SimulatedTime {
  now_ms = 0
  private before_ms = 0
  private readonly contexts = new AsyncLocalStorage<Context>()
  private readonly due: Due[] = []
  private order = 0
  /** Calls of the platform that answer from another thread, and reads of the venue that rest between slices. */
  private working = 0
  private readonly undo: (() => void)[] = []

  constructor() {
    const { setTimeout, clearTimeout, performance, crypto } = globalThis
    const [now, verify, importKey] = [
      performance.now.bind(performance),
      crypto.subtle.verify.bind(crypto.subtle),
      crypto.subtle.importKey.bind(crypto.subtle),
    ]
    this.replace(globalThis, 'setTimeout', (run: () => void, delay_ms = 0) =>
      this.current === undefined ? setTimeout(run, delay_ms) : this.at(delay_ms, run, this.current),
    )
    this.replace(globalThis, 'clearTimeout', (timer: unknown) => {
      const due = this.due.find((one) => one === timer)
      if (due === undefined) clearTimeout(timer as number)
      else due.cancelled = true
    })
    this.replace(performance, 'now', () => (this.current === undefined ? now() : this.now_ms))
    this.replace(crypto.subtle, 'verify', (...args: never[]) => this.counted(verify, args))
    this.replace(crypto.subtle, 'importKey', (...args: never[]) => this.counted(importKey, args))
    const [time, { run }] = [this, Slices.prototype]
    this.replace(Slices.prototype, 'run', function (this: Slices, ...args: Parameters<typeof run>) {
      return time.counted(run.bind(this), args)
    })
  }

  /** Over all schedules: a clock that never goes back. */
  get passed_ms(): number {
    return this.before_ms + this.now_ms
  }
  /** Of the code that runs now; undefined outside of a client. */
  get current(): Context | undefined {
    return this.contexts.getStore()
  }
  inside<T>(context: Context, run: () => T): T {
    return this.contexts.run(context, run)
  }
  /** `run` happens after the delay; for a client, inside its context, and not when it was killed before. */
  at(delay_ms: number, run: () => unknown, context?: Context): unknown {
    const due = { at_ms: this.now_ms + delay_ms, order: this.order++, run, context, cancelled: false }
    let place = this.due.length
    while (place > 0 && this.due[place - 1]!.at_ms > due.at_ms) place--
    this.due.splice(place, 0, due)
    return due
  }
  /** The next event happens; false when there is none. */
  async step(): Promise<boolean> {
    const next = this.due.shift()
    if (next === undefined) return false
    const { at_ms, run, context, cancelled } = next
    if (cancelled || context?.life.alive === false) return true
    this.now_ms = at_ms
    if (context === undefined) await this.contexts.exit(async () => run())
    else this.contexts.run(context, () => void run())
    await this.quiet()
    return true
  }
  /** Nothing is left that goes on without another event. */
  private async quiet(): Promise<void> {
    do {
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
    } while (this.working > 0)
  }
  /** The queue of the next schedule is empty. */
  clear(): void {
    this.due.length = 0
    this.before_ms += this.now_ms
    this.now_ms = 0
    this.order = 0
  }
  restore(): void {
    for (const undo of this.undo.splice(0)) undo()
  }

  private async counted<A extends unknown[], R>(
    call: (...args: A) => Promise<R>,
    args: unknown[],
  ): Promise<R> {
    this.working++
    try {
      return await call(...(args as A))
    } finally {
      this.working--
    }
  }
  private replace(of: object, name: string, by: unknown): void {
    const original = Reflect.get(of, name)
    Object.defineProperty(of, name, { value: by, configurable: true, writable: true })
    this.undo.push(() =>
      Object.defineProperty(of, name, { value: original, configurable: true, writable: true }),
    )
  }
}
