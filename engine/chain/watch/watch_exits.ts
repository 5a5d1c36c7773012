/** Reports open exit requests to the engine, packed only as a quorum shows them at finalized, and ends served ones on chain. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes, toHex } from '../../../protocol/bytes'
import { closeExitInstruction, refuseExitInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, ExitRequest, OutboxPort, SpentProof } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import { Patience, supervise } from '../client/health'
import { landInstruction } from '../client/land_instruction'
import { type OpenExit, readExitRequests, readVaults } from '../client/read_vault'
import { type Answer, ChainUnavailable } from '../client/rpc_pool'
import { ChainProgramError } from '../client/transaction_status'
import type { Verdicts } from './watcher'

/** Half of the engine's limit: ended requests leave its state a little later than the chain. */
const REPORTED_MAX = LIMITS.exits_open_max / 2

type Shown = Answer<{ slot: number; requests: Map<string, OpenExit> }>
type Agreed = ReadonlyMap<string, OpenExit>
type Terms = Omit<ExitRequest, 'stage'>

export class ExitWatch {
  /** Reported requests that have not ended, by request account. */
  private readonly reported: Map<string, ExitRequest>
  private agreed: Agreed = new Map()
  private batch_count = 0
  private shown: readonly Shown[] = []
  /** By request account: since when a quorum shows it, neither served nor refused. */
  private readonly since_ms = new Map<string, number>()

  /** @param exits_open requests reported by an earlier process; each is reported until it ends */
  constructor(
    private readonly client: ChainClient,
    private readonly sink: ChainSinkPort,
    exits_open: readonly ExitRequest[],
  ) {
    this.reported = new Map(exits_open.map((request) => [encodeBase58(request.request_account), request]))
    const { health, view } = client
    health.watch('exit_overdue', () => {
      const due_ms = view.options.monotonicMs() - LIMITS.settlement_delay_slots_max * view.slotMs()
      return [...this.since_ms.values()].some((since_ms) => since_ms < due_ms)
    })
  }

  /** Requests that a quorum showed at finalized in the last poll, served ones too, and the batches landed before it. */
  finalized(): { requests: OpenExit[]; batch_count: number } {
    return { requests: [...this.agreed.values()], batch_count: this.batch_count }
  }

  /** Whether a quorum of the last poll showed no such open request at finalized. */
  isDisproved(request: ExitRequest): boolean {
    const account = encodeBase58(request.request_account)
    const without = this.shown.filter(({ value }) => {
      const shown = value.requests.get(account)
      return !shown || shown.served || !isSame(shown, request)
    })
    return without.length >= this.client.rpc.quorum
  }

  /**
   * Reads both levels and reports changes; beyond the bound, requests with later deadlines wait.
   * @param batch_count finalized settlement batches
   * @throws ChainUnavailable
   */
  async follow(batch_count: number): Promise<void> {
    const [finalized, confirmed] = [await this.read('finalized'), await this.read('confirmed')]
    const { quorum } = this.client.rpc
    if (finalized.length < quorum || confirmed.length < quorum) return
    const agreed = this.agree(finalized)
    this.agreed = agreed
    this.shown = finalized
    this.batch_count = batch_count
    this.noteOpen(agreed)
    const shown = [...finalized, ...confirmed].flatMap(({ value }) => [...value.requests])
    await this.reportGone(agreed, shown)
    for (const [account, { served, bond_payer: _, ...request }] of agreed) {
      if (served || this.reported.get(account)?.stage === 'finalized') continue
      await this.report(account, { ...request, stage: 'finalized' })
    }
    for (const [account, { served, bond_payer: _, ...request }] of shown) {
      if (!served && !this.reported.has(account))
        await this.report(account, { ...request, stage: 'confirmed' })
    }
  }

  private noteOpen(agreed: Agreed): void {
    const now_ms = this.client.view.options.monotonicMs()
    const { since_ms } = this
    for (const account of since_ms.keys()) if (agreed.get(account)?.served !== false) since_ms.delete(account)
    for (const [account, { served }] of agreed)
      if (!served && !since_ms.has(account)) since_ms.set(account, now_ms)
  }

  private async read(level: 'confirmed' | 'finalized'): Promise<Shown[]> {
    const { rpc, view, address } = this.client
    return view.fresh(level, await rpc.all((reader) => readExitRequests({ rpc: reader, address }, level)))
  }

  /** The requests that a quorum shows alike; a provider that hides one of them or invents another deviates. */
  private agree(finalized: readonly Shown[]): Agreed {
    const { rpc, health } = this.client
    const agreed = new Map<string, OpenExit>()
    const deviating = new Set<number>()
    for (const [account, request] of finalized.flatMap(({ value }) => [...value.requests])) {
      if (agreed.has(account)) continue
      const votes = finalized.map(({ at, value }) => ({ at, value: value.requests.get(account) }))
      const isAlike = (one: OpenExit) =>
        isSame(one, request) && equalBytes(one.bond_payer, request.bond_payer)
      const group = rpc.majority(votes, (one) => (one ? String(isAlike(one)) : 'absent'))
      for (const vote of votes) if (!group?.includes(vote)) deviating.add(vote.at)
      const [first] = group ?? []
      if (!first?.value || !isAlike(first.value)) continue
      agreed.set(account, { ...request, served: group!.every(({ value }) => value?.served) })
    }
    for (const { at } of finalized) health.judge('exits', at, !deviating.has(at))
    return agreed
  }

  /** Ends requests that no provider shows any longer, or that the quorum shows with other terms. */
  private async reportGone(agreed: Agreed, shown: readonly [string, OpenExit][]): Promise<void> {
    for (const [account, request] of this.reported) {
      const sure = agreed.get(account)
      const seen = sure ? [sure] : shown.flatMap(([name, one]) => (name === account ? [one] : []))
      if (seen.some((one) => isSame(one, request))) continue
      // A finalized request disappears when it was served, refused or frozen: batches and events report that.
      if (request.stage === 'confirmed') await this.sink.exitRequested({ ...request, stage: 'vanished' })
      this.reported.delete(account)
    }
  }

  private async report(account: string, request: ExitRequest): Promise<void> {
    if (!this.reported.has(account) && this.reported.size >= REPORTED_MAX) return
    if (await this.sink.exitRequested(request)) this.reported.set(account, request)
  }
}

function isSame(a: Terms, b: Terms): boolean {
  return (
    a.deadline_unix_s === b.deadline_unix_s &&
    a.amount === b.amount &&
    [a.nullifier, a.commitment, a.mint, a.destination, a.refund_inner].every((bytes, at) =>
      equalBytes(bytes, [b.nullifier, b.commitment, b.mint, b.destination, b.refund_inner][at]!),
    )
  )
}

export class ExitEnds {
  private readonly patience = new Patience<string>()

  constructor(
    private readonly client: ChainClient,
    private readonly outbox: Pick<OutboxPort, 'spentProof'>,
    private readonly exits: Pick<ExitWatch, 'finalized'>,
    private readonly verdicts: Pick<Verdicts, 'isDisowned'>,
  ) {}

  /** Runs until the client closes or another instance holds the vault. */
  run(): Promise<void> {
    const { rpc, view } = this.client
    return supervise(this.client, async () => {
      const { requests, batch_count } = this.exits.finalized()
      this.patience.keep(new Set(requests.map(({ nullifier }) => toHex(nullifier))))
      const due: OpenExit[] = []
      for (const request of requests) if (await this.isDue(request, batch_count)) due.push(request)
      await Promise.all(due.slice(0, LIMITS.payments_in_flight_max).map((request) => this.end(request)))
      await rpc.sleep(LIMITS.exits_look_slots * view.slotMs())
      return !this.verdicts.isDisowned()
    })
  }

  /** @param batch_count batches that had landed when the request was read: a later one may have served it meanwhile */
  private async isDue({ nullifier, served }: OpenExit, batch_count: number): Promise<boolean> {
    if (!this.patience.mayTry(toHex(nullifier), this.client.view.now().slot)) return false
    return served || (await this.outbox.spentProof(nullifier, batch_count)) !== undefined
  }

  private async end({ nullifier, bond_payer, served }: OpenExit): Promise<void> {
    const { client } = this
    const close = () => closeExitInstruction({ program: client.vault.program, nullifier, bond_payer })
    const prepare = async () => (served ? close() : this.refusal(nullifier))
    try {
      await landInstruction(client, { prepare, deadline_ms: LIMITS.exit_end_max_ms })
    } catch (error) {
      // Another sender ended the request first, or its bond payer cannot receive.
      if (!(error instanceof ChainProgramError || error instanceof ChainUnavailable)) throw error
    }
    // Finalized means ended; the next reading that still shows it is an earlier one or shows a failure.
    this.patience.failed(toHex(nullifier), client.view.now().slot)
  }

  /**
   * Cites a root of the ring, which the program knows for a while; without one the present root, which the next batch may
   * end. @throws ChainUnavailable
   */
  private async refusal(nullifier: Uint8Array): Promise<VaultInstruction | undefined> {
    const { client, outbox } = this
    const shown = (await readVaults(client, 'confirmed')).map(({ value }) => value)
    const isKept = ({ root }: SpentProof) =>
      shown.filter(({ ring }) => ring.states.some(({ spent_root }) => equalBytes(spent_root, root))).length >=
      client.rpc.quorum
    const last_batch = client.rpc.reached(shown.map(({ config }) => config.last_batch)) ?? 0
    let cited: SpentProof | undefined
    for (let count = last_batch; count > last_batch - LIMITS.exit_refusal_roots_max; count--) {
      const proof = await outbox.spentProof(nullifier, count)
      if (!proof) break
      cited ??= proof
      if (!isKept(proof)) continue
      cited = proof
      break
    }
    if (!cited) return undefined
    return refuseExitInstruction({
      program: client.vault.program,
      refuser: client.payer_key,
      nullifier,
      cited_spent_root: cited.root,
      batch: cited.batch_id,
      nullifiers: cited.nullifiers,
      path: cited.siblings,
    })
  }
}
