/** Calls the RPC providers: one read with failover, or a question to all of which a quorum must answer alike. */
import {
  createSolanaRpcFromTransport,
  isSolanaError,
  type Rpc,
  type RpcTransport,
  type SolanaRpcApiMainnet,
} from '@solana/kit'
import { askJsonRpc } from '../../../protocol/ask_bounded'
import { toHex } from '../../../protocol/bytes'
import { LIMITS } from '../../limits'

/** The methods every cluster has: no faucet. */
type SolanaRpc = Rpc<SolanaRpcApiMainnet>
type Request<T> = (rpc: SolanaRpc, signal: AbortSignal) => Promise<T>
/** Where a request goes: a pool with failover, or one provider of it. */
export type Reader = { read<T>(request: Request<T>): Promise<T> }
/** The answer of one provider; `at` is its place in the pool. */
export type Answer<T> = { at: number; value: T }

/** No endpoint answered in time, or no quorum of them agreed. Carries no request content. */
export class ChainUnavailable extends Error {}

/** JSON-RPC: invalid request, unknown method, invalid parameters. Not retried on the same endpoint. */
const PERMANENT_CODES: readonly number[] = [-32600, -32601, -32602]

export class RpcPool implements Reader {
  /** One per provider. */
  private readonly endpoints: readonly SolanaRpc[]
  /** Endpoints that transactions are sent to in addition to the providers: one attempt per request. */
  readonly senders: readonly Reader[]
  /** Host name and port of each provider; the rest of a URL may be a credential. */
  readonly hosts: readonly string[]
  /** Each provider by itself: one attempt per read. */
  readonly each: readonly Reader[]
  /** Providers that must agree: 1 of 1, 2 of 2, otherwise a majority. */
  readonly quorum: number
  private readonly closing = new AbortController()
  /** Providers that were late and have not answered since; the others are not held up by them. */
  private readonly late = new Set<number>()
  /** Requests of `each` and `senders` that are under way, by endpoint. */
  private readonly pending = new Map<SolanaRpc, number>()
  private preferred = 0

  /**
   * @param timeout_ms deadline of one request
   * @param send_urls endpoints that only receive transactions
   */
  constructor(
    urls: readonly string[],
    readonly timeout_ms: number,
    send_urls: readonly string[] = [],
  ) {
    if (urls.length === 0) throw new RangeError('at least one RPC endpoint is needed')
    const endpointOf = (url: string): SolanaRpc => {
      const transport: RpcTransport = async <T>({ payload, signal }: Parameters<RpcTransport>[0]) =>
        (await askJsonRpc(url, payload, timeout_ms, signal)) as T
      return createSolanaRpcFromTransport(transport)
    }
    this.endpoints = urls.map(endpointOf)
    this.hosts = urls.map((url) => new URL(url).host)
    this.quorum = Math.floor(urls.length / 2) + 1
    const readerOf = (endpoint: SolanaRpc): Reader => ({ read: (request) => this.once(endpoint, request) })
    this.each = this.endpoints.map(readerOf)
    this.senders = send_urls.map((url) => readerOf(endpointOf(url)))
  }

  get closed(): boolean {
    return this.closing.signal.aborted
  }

  /** Aborts when the pool closes or the request's deadline passes. */
  private signal(): AbortSignal {
    return AbortSignal.any([this.closing.signal, AbortSignal.timeout(this.timeout_ms)])
  }

  /**
   * Runs a read on the provider at `first`, by default the one that answered last, then on the others. A request that one
   * provider rejects as invalid may be valid for another: not every node accepts v1 transactions.
   * @throws ChainUnavailable after the last attempt; the provider's error once every one has rejected the request
   */
  async read<T>(request: Request<T>, first = this.preferred): Promise<T> {
    let failure: unknown
    const rejected = new Set<number>()
    for (let attempt = 0; attempt < LIMITS.rpc_attempts_max && !this.closed; attempt++) {
      const at = (first + attempt) % this.endpoints.length
      try {
        const answer = await request(this.endpoints[at]!, this.signal())
        this.preferred = at
        return answer
      } catch (error) {
        if (isPermanent(error)) rejected.add(at)
        if (rejected.size === this.endpoints.length) throw error
        failure = error
        if (!rejected.has(at)) await this.sleep(backoffMs(attempt))
      }
    }
    throw new ChainUnavailable(`no answer from the chain in ${LIMITS.rpc_attempts_max} attempts`, {
      cause: failure,
    })
  }

  /** One provider by itself, which is asked again where it does not answer. */
  patient(at: number): Reader {
    return {
      read: async (request) => {
        for (let attempt = 1; ; attempt++) {
          try {
            return await this.each[at]!.read(request)
          } catch (error) {
            if (attempt >= LIMITS.rpc_attempts_max || this.closed || isPermanent(error)) throw error
          }
          await this.sleep(backoffMs(attempt - 1))
        }
      },
    }
  }

  /**
   * Asks every provider at once. Resolves when all have answered; with a quorum of answers, a provider that is late is
   * waited for only briefly, and not at all while its earlier answer is still missing.
   * @throws ChainUnavailable with fewer answers than the quorum; the providers' own error if a quorum of them reports one
   */
  async all<T>(ask: (reader: Reader, at: number) => Promise<T>): Promise<Answer<T>[]> {
    const answers: Answer<T>[] = []
    const errors: unknown[] = []
    const waiting = new Set(this.each.keys())
    const enough = Promise.withResolvers<void>()
    const asked = this.each.map(async (reader, at) => {
      try {
        answers.push({ at, value: await ask(reader, at) })
        this.late.delete(at)
        if (answers.length === this.quorum) enough.resolve()
      } catch (error) {
        errors.push(error)
      }
      waiting.delete(at)
    })
    const prompt = Promise.all(asked.filter((_, at) => !this.late.has(at)))
    const brief = Promise.race([prompt, this.sleep(LIMITS.rpc_grace_ms)])
    await Promise.race([Promise.all(asked), Promise.all([enough.promise, brief])])
    for (const at of waiting) this.late.add(at)
    if (answers.length >= this.quorum) return [...answers]
    const told = errors.filter((error) => !(error instanceof ChainUnavailable))
    if (told.length >= this.quorum) throw told[0]
    throw new ChainUnavailable('too few RPC providers answer', { cause: errors[0] })
  }

  /** The answers that a quorum gives alike, by `keyOf`; undefined while none does. */
  majority<T>(answers: readonly Answer<T>[], keyOf: (value: T) => string): Answer<T>[] | undefined {
    const groups = Map.groupBy(answers, ({ value }) => keyOf(value))
    return [...groups.values()].find((group) => group.length >= this.quorum)
  }

  /** The highest number that a quorum of `values` reaches; undefined with fewer values than the quorum. */
  reached(values: readonly number[]): number | undefined {
    return values.toSorted((a, b) => b - a)[this.quorum - 1]
  }

  /** Asks all providers until a quorum answers alike. @throws ChainUnavailable after the last attempt, or the error of `all` */
  async agree<T>(ask: (reader: Reader) => Promise<T>, keyOf: (value: T) => string): Promise<T> {
    return (await this.until(ask, (answers) => this.majority(answers, keyOf)?.[0])).value
  }

  /**
   * The same for answers of a slot. Only recent ones count: an older one together with a false one would be a quorum for an
   * outdated state. Providers that are behind, or on the other side of a change, are asked again at the agreed slot.
   * @param since slot that a quorum has shown before, 0 for none
   * @param choose among the recent answers: those that support one of them, that one first
   * @returns with the newest slot that a quorum of these reaches, even if the first names another
   */
  async agreeRecent<T extends { slot: number }>(
    ask: (reader: Reader, minContextSlot: bigint) => Promise<T>,
    since = 0,
    choose = (recent: readonly Answer<T>[]) =>
      this.majority(recent, ({ slot: _, ...value }) => textOf(value)),
  ): Promise<T> {
    let reached = 0
    const { value } = await this.until(
      (reader) => ask(reader, BigInt(reached)),
      (answers) => {
        reached = Math.max(reached, this.reached(answers.map(slotOf))!)
        const oldest = Math.max(reached, since) - LIMITS.chain_lag_slots_max
        const chosen = choose(answers.filter((one) => slotOf(one) >= oldest))
        const [first] = chosen ?? []
        return first && { value: { ...first.value, slot: this.reached(chosen!.map(slotOf))! } }
      },
    )
    return value
  }

  private async until<T>(
    ask: (reader: Reader) => Promise<T>,
    choose: (answers: Answer<T>[]) => { value: T } | undefined,
  ): Promise<{ value: T }> {
    for (let attempt = 0; ; attempt++) {
      try {
        const found = choose(await this.all(ask))
        if (found !== undefined) return found
        throw new ChainUnavailable('the RPC providers do not agree')
      } catch (error) {
        const last = attempt + 1 >= LIMITS.rpc_attempts_max || this.closed
        if (last || !(error instanceof ChainUnavailable)) throw error
      }
      await this.sleep(backoffMs(attempt))
    }
  }

  /** An endpoint that hangs must not use up the requests that the runtime has under way at a time. */
  private async once<T>(endpoint: SolanaRpc, request: Request<T>): Promise<T> {
    const pending = this.pending.get(endpoint) ?? 0
    if (pending >= LIMITS.rpc_pending_max) throw new ChainUnavailable('an RPC provider does not answer')
    this.pending.set(endpoint, pending + 1)
    try {
      return await request(endpoint, this.signal())
    } catch (error) {
      if (isPermanent(error)) throw error
      throw new ChainUnavailable('an RPC provider does not answer', { cause: error })
    } finally {
      this.pending.set(endpoint, this.pending.get(endpoint)! - 1)
    }
  }

  /** Resolves after `ms`, or immediately when the pool closes. */
  sleep(ms: number): Promise<void> {
    if (this.closed) return Promise.resolve()
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.closing.signal.removeEventListener('abort', done)
        resolve()
      }
      const timer = setTimeout(done, ms)
      this.closing.signal.addEventListener('abort', done)
    })
  }

  close(): void {
    this.closing.abort()
  }
}

/** A number in an answer, which may be of any form. @throws ChainUnavailable unless it is whole and at least 0 */
export function wholeOf(value: unknown): number {
  const number = typeof value === 'bigint' ? Number(value) : value
  if (!Number.isSafeInteger(number) || (number as number) < 0)
    throw new ChainUnavailable('an RPC provider answers no whole number')
  return number as number
}

const slotOf = <T extends { slot: number }>({ value }: Answer<T>): number => value.slot

/** The same text for equal answers. */
export function textOf(value: unknown): string {
  const text = JSON.stringify(value, (_, one) => {
    if (typeof one === 'bigint') return String(one)
    return one instanceof Uint8Array ? toHex(one) : one
  })
  return text ?? 'absent'
}

/** Doubles from 40 ms to 2 s; half of it is jitter, so that clients that failed together do not retry together. */
export function backoffMs(attempt: number): number {
  const full = Math.min(LIMITS.rpc_backoff_max_ms, LIMITS.rpc_backoff_first_ms * 2 ** attempt)
  return full / 2 + Math.random() * (full / 2)
}

export function isPermanent(error: unknown): boolean {
  return isSolanaError(error) && PERMANENT_CODES.includes(error.context.__code)
}
