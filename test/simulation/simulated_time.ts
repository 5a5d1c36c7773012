/**
 * One clock and one queue for everything: timers, threads and the network of venue and clients run one after the other, in an
 * order that a seed decides. Simultaneous steps are done before time passes.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import {
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign as signSync,
  verify as verifySync,
} from 'node:crypto'
import type { Random } from '../kit/random'
import { type Life, run } from './awaits'
import { simulateAbort } from './simulated_abort'

/** One call of a trader, and the requests that left the process for it. */
export type Doing = { readonly kind: string; readonly sent: Set<string> }
/** Of code that runs in a process. */
export type Context = {
  readonly life: Life
  readonly side: 'client' | 'venue'
  /** Of a client. */
  readonly doing: Doing
}
export const inVenue = (life: Life): Context => ({
  life,
  side: 'venue',
  doing: { kind: 'none', sent: new Set() },
})

/** An event, and the timer that the product holds. */
class Due {
  cancelled = false
  /** Happens in the next schedule, too, though it is of no process. */
  stays = false
  constructor(
    public at_ms: number,
    readonly happen: () => unknown,
    readonly context: Context | undefined,
    /** Nothing happens any more when this one ended. */
    readonly life: Life | undefined,
  ) {}
  ref = (): this => this
  unref = (): this => this
  hasRef = (): boolean => true
}

/** Prefixes of DER behind which keys come: 32 bytes, and 65 of a point. */
const DER: Record<string, Buffer> = {
  Ed25519: Buffer.from('302a300506032b6570032100', 'hex'),
  ECDSA: Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex'),
}
const realImmediate = globalThis.setImmediate
/** The event loop's turns until every promise that can has settled. */
const turn = (): Promise<void> => new Promise((resolve) => void realImmediate(resolve))

const set = (of: object, name: string, value: unknown) =>
  Object.defineProperty(of, name, { value, configurable: true, writable: true })

export class SimulatedTime {
  now_ms = 0
  random!: Random
  /** The longest that a message between threads of one process takes; mostly it is there at once. */
  slow_ms = 0
  private before_ms = 0
  private readonly contexts = new AsyncLocalStorage<Context>()
  private due: Due[] = []
  /** Steps before time passes, in any order that their senders leave open. */
  private soon: Due[] = []
  private working = 0

  constructor() {
    const timer = (delay_ms: number, happen: () => unknown): Due => {
      const context = this.current
      return this.later(delay_ms, happen, context, context?.life ?? run.venue)
    }
    const sleep = (ms: number): Promise<void> => new Promise((resolve) => void timer(ms, resolve))
    const repeat = (happen: () => void, every_ms: number): { due: Due } => {
      const own = { due: undefined as never as Due, unref: () => own, ref: () => own }
      const next = () => {
        own.due = timer(every_ms, () => {
          next()
          happen()
        })
      }
      next()
      return own
    }
    const cancel = (of: unknown): void => {
      const due = of instanceof Due ? of : (of as { due?: Due } | undefined)?.due
      if (due !== undefined) due.cancelled = true
    }
    set(globalThis, 'setTimeout', (happen: () => void, ms = 0) => timer(ms, happen))
    set(globalThis, 'setInterval', repeat)
    set(globalThis, 'setImmediate', (happen: () => void) => this.soonAt(happen, this.current))
    for (const name of ['clearTimeout', 'clearInterval', 'clearImmediate']) set(globalThis, name, cancel)
    set(performance, 'now', () => this.passed_ms)
    set(Date, 'now', () => 1_700_000_000_000 + this.passed_ms)
    // Only time depends on a collection.
    set(globalThis, '$Bun', { sleep, sleepSync: () => undefined, gc: () => 0 })
    set(Math, 'random', () => this.random.next())
    simulateAbort(timer)
    this.simulateKeys()
    run.current = () => this.current
  }

  /** Signatures on this thread; work that must run elsewhere is waited for before time passes. */
  private simulateKeys(): void {
    const importKey = async (prefix: Buffer, raw: Uint8Array) =>
      createPublicKey({ key: Buffer.concat([prefix, raw]), format: 'der', type: 'spki' })
    const verify = async (_: unknown, key: KeyObject, signature: Uint8Array, message: Uint8Array) =>
      key.asymmetricKeyType === 'ed25519'
        ? verifySync(null, message, key, signature)
        : verifySync('sha256', message, { key, dsaEncoding: 'ieee-p1363' }, signature)
    const signing = new WeakMap<CryptoKey, KeyObject>()
    const sign = async (_: unknown, key: CryptoKey, message: Uint8Array) =>
      new Uint8Array(signSync(null, message, signing.get(key)!)).buffer
    const importSigning = async (der: Uint8Array, real: Promise<CryptoKey>) => {
      const key = await this.counted(real)
      signing.set(key, createPrivateKey({ key: Buffer.from(der), format: 'der', type: 'pkcs8' }))
      return key
    }
    const { subtle } = crypto
    const importReal = subtle.importKey.bind(subtle)
    const encrypt = subtle.encrypt.bind(subtle)
    set(
      subtle,
      'importKey',
      (form: 'raw', raw: Uint8Array<ArrayBuffer>, how: 'AES-GCM', ...more: [false, ['encrypt']]) => {
        const name = ((how as { name?: string }).name ?? how) as string
        const prefix = form === 'raw' ? DER[name] : undefined
        if (prefix !== undefined) return importKey(prefix, raw)
        const real = importReal(form, raw, how, ...more)
        return (form as string) === 'pkcs8' ? importSigning(raw, real) : this.counted(real)
      },
    )
    const exportReal = subtle.exportKey.bind(subtle) as (...args: unknown[]) => Promise<ArrayBuffer>
    set(subtle, 'exportKey', (...args: unknown[]) => this.counted(exportReal(...args)))
    const derive = subtle.deriveBits.bind(subtle)
    set(subtle, 'deriveBits', (...args: Parameters<typeof derive>) => this.counted(derive(...args)))
    set(subtle, 'encrypt', (...args: Parameters<typeof encrypt>) => this.counted(encrypt(...args)))
    set(subtle, 'verify', verify)
    set(subtle, 'sign', sign)
  }

  /** Over all schedules: a clock that never goes back. */
  get passed_ms(): number {
    return this.before_ms + this.now_ms
  }
  /** Between two schedules, while no process lives. */
  pass(ms: number): void {
    this.before_ms += ms
  }
  /** Of the code that runs now; undefined outside of a process. */
  get current(): Context | undefined {
    return this.contexts.getStore()
  }
  inside<T>(context: Context, happen: () => T): T {
    return this.contexts.run(context, happen)
  }
  /** `happen` after the delay; for a client, inside its context, and not when it was killed before. */
  at(delay_ms: number, happen: () => unknown, context?: Context): Due {
    return this.later(delay_ms, happen, context, context?.life)
  }
  private later(
    delay_ms: number,
    happen: () => unknown,
    context: Context | undefined,
    life: Life | undefined,
  ): Due {
    const due = new Due(this.now_ms + delay_ms, happen, context, life)
    const { due: all } = this
    let [low, high] = [0, all.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (all[middle]!.at_ms > due.at_ms) high = middle
      else low = middle + 1
    }
    all.splice(low, 0, due)
    return due
  }
  private soonAt(happen: () => unknown, context: Context | undefined): Due {
    const due = new Due(this.now_ms, happen, context, context?.life ?? run.venue)
    this.soon.push(due)
    return due
  }
  /** A message between threads of the venue, to the one of `context`; those of one line keep their order. */
  message(line: (() => void)[], happen: () => void, context: Context | undefined): void {
    line.push(happen)
    if (line.length === 1) this.send(line, context)
  }
  private send(line: (() => void)[], context: Context | undefined): void {
    const deliver = () => {
      const happen = line.shift()!
      if (line.length > 0) this.send(line, context)
      happen()
    }
    const is_slow = this.slow_ms > 0 && this.random.below(8) === 0
    const life = context?.life ?? run.venue
    if (is_slow) this.later(1 + this.random.below(this.slow_ms), deliver, context, life)
    else this.soonAt(deliver, context)
  }
  /** The next event happens; false when there is none. */
  async step(): Promise<boolean> {
    if (this.soon.length === 0) {
      const next = this.due.shift()
      if (next === undefined) return false
      if (next.cancelled || next.life?.alive === false) return true
      this.now_ms = Math.max(this.now_ms, next.at_ms)
      await this.happens(next)
    }
    while (this.soon.length > 0) {
      // One of the first: a later one may overtake.
      const place = this.soon.length === 1 ? 0 : this.random.below(Math.min(3, this.soon.length))
      const [one] = this.soon.splice(place, 1)
      if (!one!.cancelled && one!.life?.alive !== false) await this.happens(one!)
    }
    return true
  }
  private async happens({ happen, context }: Due): Promise<void> {
    if (context === undefined) this.contexts.exit(() => void happen())
    else this.contexts.run(context, () => void happen())
    do await turn()
    while (this.working > 0)
  }
  /** Steps until it settles. */
  async wait<T>(promise: Promise<T>): Promise<T> {
    let over = false
    const end = () => {
      over = true
    }
    promise.then(end, end)
    await turn()
    while (!over) if (!(await this.step())) throw new Error('nothing is left to happen')
    return promise
  }
  /** The queue of the next schedule has the events that the venue itself waits for. */
  clear(): void {
    const keeps = ({ life, context, stays }: Due) =>
      stays || (context?.side !== 'client' && life !== undefined && life.alive)
    this.due = this.due.filter(keeps)
    for (const one of this.due) one.at_ms -= this.now_ms
    this.before_ms += this.now_ms
    this.now_ms = 0
  }
  private async counted<T>(call: Promise<T>): Promise<T> {
    this.working++
    try {
      return await call
    } finally {
      this.working--
    }
  }
}
