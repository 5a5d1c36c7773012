/** Reports open exit requests to the engine: at confirmed, at finalized, and when a fork removes one. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, ExitRequest } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { type OpenExit, readExitRequests } from '../client/read_vault'

/** Half of the engine's limit: ended requests leave its state a little later than the chain. */
const REPORTED_MAX = LIMITS.exits_open_max / 2

export class ExitWatch {
  /** Reported requests that have not ended, by request account. */
  private readonly reported: Map<string, ExitRequest>
  private open_exits: ReadonlyMap<string, OpenExit> = new Map()

  /** @param exits_open requests reported by an earlier process; each is reported until it ends */
  constructor(
    readonly client: Pick<ChainClient, 'rpc' | 'address'>,
    readonly sink: ChainSinkPort,
    exits_open: readonly ExitRequest[],
  ) {
    this.reported = new Map(exits_open.map((request) => [encodeBase58(request.request_account), request]))
  }

  /** Finalized requests as of the last poll. */
  finalized(): Iterable<OpenExit> {
    return this.open_exits.values()
  }

  /** Reads both levels and reports changes; beyond the bound, requests with later deadlines wait. @throws ChainUnavailable */
  async follow(): Promise<void> {
    const finalized = await readExitRequests(this.client, 'finalized')
    const confirmed = await readExitRequests(this.client, 'confirmed')
    this.open_exits = finalized
    await this.reportGone(confirmed, finalized)
    for (const [account, request] of confirmed) {
      if (this.reported.has(account) || this.reported.size >= REPORTED_MAX) continue
      await this.report(account, { ...request, stage: 'confirmed' })
    }
    for (const [account, request] of finalized) {
      const reported = this.reported.get(account)
      if (reported?.stage === 'finalized' || (!reported && this.reported.size >= REPORTED_MAX)) continue
      await this.report(account, { ...request, stage: 'finalized' })
    }
  }

  /** Ends requests that the chain no longer shows; a fork can also replace one by another request of the same note. */
  private async reportGone(
    confirmed: ReadonlyMap<string, OpenExit>,
    finalized: ReadonlyMap<string, OpenExit>,
  ): Promise<void> {
    for (const [account, request] of this.reported) {
      const seen = finalized.get(account) ?? confirmed.get(account)
      if (seen && isSame(seen, request)) continue
      // A finalized request disappears when it was served, refused or frozen: batches and events report that.
      if (request.stage === 'confirmed') await this.sink.exitRequested({ ...request, stage: 'vanished' })
      this.reported.delete(account)
    }
  }

  private async report(account: string, request: ExitRequest): Promise<void> {
    await this.sink.exitRequested(request)
    this.reported.set(account, request)
  }
}

function isSame(a: OpenExit, b: OpenExit): boolean {
  return (
    a.deadline_unix_s === b.deadline_unix_s &&
    equalBytes(a.destination, b.destination) &&
    equalBytes(a.refund_inner, b.refund_inner)
  )
}
