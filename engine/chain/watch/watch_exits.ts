/** Reports open exit requests to the engine: one provider's claim freezes a note, only a quorum's at finalized is packed. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, ExitRequest } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { type OpenExit, readExitRequests } from '../client/read_vault'
import type { Answer } from '../client/rpc_pool'

/** Half of the engine's limit: ended requests leave its state a little later than the chain. */
const REPORTED_MAX = LIMITS.exits_open_max / 2

type Shown = Answer<{ slot: number; requests: Map<string, OpenExit> }>
type Agreed = ReadonlyMap<string, OpenExit>

export class ExitWatch {
  /** Reported requests that have not ended, by request account. */
  readonly #reported: Map<string, ExitRequest>
  #agreed: Agreed = new Map()

  /** @param exits_open requests reported by an earlier process; each is reported until it ends */
  constructor(
    readonly client: ChainClient,
    readonly sink: ChainSinkPort,
    exits_open: readonly ExitRequest[],
  ) {
    this.#reported = new Map(exits_open.map((request) => [encodeBase58(request.request_account), request]))
  }

  /** Requests that a quorum showed at finalized in the last poll. */
  finalized(): Iterable<OpenExit> {
    return this.#agreed.values()
  }

  /** Reads both levels and reports changes; beyond the bound, requests with later deadlines wait. @throws ChainUnavailable */
  async follow(): Promise<void> {
    const [finalized, confirmed] = [await this.#read('finalized'), await this.#read('confirmed')]
    const { quorum } = this.client.rpc
    if (finalized.length < quorum || confirmed.length < quorum) return
    const agreed = this.#agree(finalized)
    this.#agreed = agreed
    const shown = [...finalized, ...confirmed].flatMap(({ value }) => [...value.requests])
    await this.#reportGone(agreed, shown)
    for (const [account, request] of agreed) {
      if (this.#reported.get(account)?.stage === 'finalized') continue
      await this.#report(account, { ...request, stage: 'finalized' })
    }
    for (const [account, request] of shown) {
      if (!this.#reported.has(account)) await this.#report(account, { ...request, stage: 'confirmed' })
    }
  }

  async #read(level: 'confirmed' | 'finalized'): Promise<Shown[]> {
    const { rpc, view, address } = this.client
    return view.fresh(level, await rpc.all((reader) => readExitRequests({ rpc: reader, address }, level)))
  }

  /** The requests that a quorum shows alike; a provider that hides one of them or invents another deviates. */
  #agree(finalized: readonly Shown[]): Agreed {
    const { rpc, health } = this.client
    const agreed = new Map<string, OpenExit>()
    const deviating = new Set<number>()
    for (const [account, request] of finalized.flatMap(({ value }) => [...value.requests])) {
      if (agreed.has(account)) continue
      const votes = finalized.map(({ at, value }) => ({ at, value: value.requests.get(account) }))
      const group = rpc.majority(votes, (one) => (one ? String(isSame(one, request)) : 'absent'))
      for (const vote of votes) if (!group?.includes(vote)) deviating.add(vote.at)
      const [first] = group ?? []
      if (first?.value && isSame(first.value, request)) agreed.set(account, request)
    }
    for (const { at } of finalized) health.judge('exits', at, !deviating.has(at))
    return agreed
  }

  /** Ends requests that no provider shows any longer, and those that the quorum shows with other terms. */
  async #reportGone(agreed: Agreed, shown: readonly [string, OpenExit][]): Promise<void> {
    for (const [account, request] of this.#reported) {
      const sure = agreed.get(account)
      const seen = sure ? [sure] : shown.flatMap(([name, one]) => (name === account ? [one] : []))
      if (seen.some((one) => isSame(one, request))) continue
      // A finalized request disappears when it was served, refused or frozen: batches and events report that.
      if (request.stage === 'confirmed') await this.sink.exitRequested({ ...request, stage: 'vanished' })
      this.#reported.delete(account)
    }
  }

  async #report(account: string, request: ExitRequest): Promise<void> {
    if (!this.#reported.has(account) && this.#reported.size >= REPORTED_MAX) return
    if (await this.sink.exitRequested(request)) this.#reported.set(account, request)
  }
}

function isSame(a: OpenExit, b: OpenExit): boolean {
  return (
    a.deadline_unix_s === b.deadline_unix_s &&
    a.amount === b.amount &&
    [a.nullifier, a.commitment, a.mint, a.destination, a.refund_inner].every((bytes, at) =>
      equalBytes(bytes, [b.nullifier, b.commitment, b.mint, b.destination, b.refund_inner][at]!),
    )
  )
}
