/** Calls the RPC endpoints: each request has a deadline and is retried over the endpoints with backoff and jitter. */
import { createSolanaRpc, isSolanaError, mainnet, type Rpc, type SolanaRpcApiMainnet } from '@solana/kit'
import { LIMITS } from '../../limits'

/** The methods every cluster has: no faucet. */
type SolanaRpc = Rpc<SolanaRpcApiMainnet>
/** No endpoint answered in time. Carries no request content. */
export class ChainUnavailable extends Error {}

/** JSON-RPC: invalid request, unknown method, invalid parameters. Not retried on the same endpoint. */
const PERMANENT_CODES: readonly number[] = [-32600, -32601, -32602]

export class RpcPool {
  readonly endpoints: readonly SolanaRpc[]
  private readonly closing = new AbortController()
  private preferred = 0

  /** @param timeout_ms deadline of one request */
  constructor(
    urls: readonly string[],
    readonly timeout_ms: number,
  ) {
    if (urls.length === 0) throw new RangeError('at least one RPC endpoint is needed')
    this.endpoints = urls.map((url) => createSolanaRpc(mainnet(url)))
  }

  get closed(): boolean {
    return this.closing.signal.aborted
  }

  /** Aborts when the pool closes or the request's deadline passes. */
  signal(): AbortSignal {
    return AbortSignal.any([this.closing.signal, AbortSignal.timeout(this.timeout_ms)])
  }

  /**
   * Runs a read on the preferred endpoint, then on the others. A request that one endpoint rejects as invalid may be valid
   * for another: not every node accepts v1 transactions.
   * @throws ChainUnavailable after the last attempt; the endpoint's error once every endpoint has rejected the request
   */
  async read<T>(request: (rpc: SolanaRpc, signal: AbortSignal) => Promise<T>): Promise<T> {
    let failure: unknown
    const rejected = new Set<number>()
    for (let attempt = 0; attempt < LIMITS.rpc_attempts_max && !this.closed; attempt++) {
      const at = (this.preferred + attempt) % this.endpoints.length
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

/** Doubles from 40 ms to 2 s; half of it is jitter, so that clients that failed together do not retry together. */
export function backoffMs(attempt: number): number {
  const full = Math.min(LIMITS.rpc_backoff_max_ms, LIMITS.rpc_backoff_first_ms * 2 ** attempt)
  return full / 2 + Math.random() * (full / 2)
}

function isPermanent(error: unknown): boolean {
  return isSolanaError(error) && PERMANENT_CODES.includes(error.context.__code)
}
