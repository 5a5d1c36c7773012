/** Follows the open exit requests: seen at confirmed, again at finalized, or gone with a fork. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, ExitRequest } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { type OpenExit, readExitRequests } from '../client/read_vault'

/** Half of what the engine takes: those that end leave its state a moment later than the chain. */
const TOLD_MAX = LIMITS.exits_open_max / 2

export class ExitWatch {
  readonly #told: Map<string, ExitRequest>
  #finalized: ReadonlyMap<string, OpenExit> = new Map()

  /** `exits_open` are the requests the engine was told of before: each is told to its end. */
  constructor(
    readonly client: Pick<ChainClient, 'rpc' | 'address'>,
    readonly sink: ChainSinkPort,
    exits_open: readonly ExitRequest[],
  ) {
    this.#told = new Map(exits_open.map((request) => [encodeBase58(request.request_account), request]))
  }

  /** Finalized requests as of the last look. */
  finalized(): Iterable<OpenExit> {
    return this.#finalized.values()
  }

  /** Reads both levels and tells what changed; beyond the bound, those with later deadlines wait. @throws ChainUnavailable */
  async follow(): Promise<void> {
    const finalized = await readExitRequests(this.client, 'finalized')
    const confirmed = await readExitRequests(this.client, 'confirmed')
    this.#finalized = finalized
    await this.#tellGone(confirmed, finalized)
    for (const [account, request] of confirmed) {
      if (this.#told.has(account) || this.#told.size >= TOLD_MAX) continue
      await this.#tell(account, { ...request, stage: 'confirmed' })
    }
    for (const [account, request] of finalized) {
      const told = this.#told.get(account)
      if (told?.stage === 'finalized' || (!told && this.#told.size >= TOLD_MAX)) continue
      await this.#tell(account, { ...request, stage: 'finalized' })
    }
  }

  /** A fork can also put another request of the same note in a request's place. */
  async #tellGone(
    confirmed: ReadonlyMap<string, OpenExit>,
    finalized: ReadonlyMap<string, OpenExit>,
  ): Promise<void> {
    for (const [account, request] of this.#told) {
      const seen = finalized.get(account) ?? confirmed.get(account)
      if (seen && isSame(seen, request)) continue
      // A finalized request disappears when it was served, refused or frozen: batches and events tell that.
      if (request.stage === 'confirmed') await this.sink.exitRequested({ ...request, stage: 'vanished' })
      this.#told.delete(account)
    }
  }

  async #tell(account: string, request: ExitRequest): Promise<void> {
    await this.sink.exitRequested(request)
    this.#told.set(account, request)
  }
}

function isSame(a: OpenExit, b: OpenExit): boolean {
  return (
    a.deadline_unix_s === b.deadline_unix_s &&
    equalBytes(a.destination, b.destination) &&
    equalBytes(a.refund_inner, b.refund_inner)
  )
}
