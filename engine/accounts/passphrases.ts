/** Owns the bounded queue of passphrase checks before the argon2id worker. */
import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import type { PassphraseAnswer, PassphraseQuestion } from './passphrase_worker'

/** The DOM's worker type lacks what Bun's has. */
type BunWorker = Worker & { ref(): void; unref(): void }
type Waiting = { account_id: string; resolve: (right: boolean) => void; reject: (error: Refusal) => void }

/** How long one check takes at the fixed costs, roughly; only tells callers when to try again. */
const CHECK_MS = 50

export class Passphrases {
  /** Started with the first check and kept; it holds the process open only while it works. */
  private worker: BunWorker | undefined
  private readonly waiting = new Map<number, Waiting>()
  private next_id = 1
  private broken = false

  /** Throws `login_busy` when too many checks wait, or too many of this account; `internal` when the worker is gone. */
  async check(account_id: string, passphrase: string, passphrase_hash: string): Promise<boolean> {
    if (this.broken) throw new Refusal('internal')
    let own = 0
    for (const other of this.waiting.values()) if (other.account_id === account_id) own++
    if (own >= LIMITS.account_logins_waiting_max || this.waiting.size >= LIMITS.logins_waiting_max)
      throw new Refusal('login_busy', { retry_after_ms: this.waiting.size * CHECK_MS })
    const question: PassphraseQuestion = { id: this.next_id++, passphrase, passphrase_hash }
    const answered = Promise.withResolvers<boolean>()
    this.waiting.set(question.id, { account_id, resolve: answered.resolve, reject: answered.reject })
    this.worker ??= this.start()
    this.worker.ref()
    this.worker.postMessage(question)
    return answered.promise
  }

  async close(): Promise<void> {
    this.fail()
    this.worker?.terminate()
  }

  private start(): BunWorker {
    const worker = new Worker(new URL('./passphrase_worker.ts', import.meta.url).href) as BunWorker
    worker.onmessage = ({ data }: MessageEvent<PassphraseAnswer>) => this.answer(data)
    worker.onerror = () => this.fail()
    return worker
  }

  private answer({ id, right }: PassphraseAnswer): void {
    this.waiting.get(id)?.resolve(right)
    this.waiting.delete(id)
    if (this.waiting.size === 0) this.worker?.unref()
  }

  private fail(): void {
    this.broken = true
    for (const { reject } of this.waiting.values()) reject(new Refusal('internal'))
    this.waiting.clear()
    this.worker?.unref()
  }
}
