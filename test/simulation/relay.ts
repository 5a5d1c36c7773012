/** Between venue and chain, slot by slot: lands batches in order and tells the venue what became final, or was undone. */
import { KnownStates } from '../../engine/chain/known_states'
import { appendLeaves } from '../../engine/hashing/trees'
import type { BatchStage, SettlementPayload } from '../../engine/ports'
import { payloadOf } from '../../engine/settlement/payload_of'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { decodeExitRequest } from '../../protocol/vault/accounts'
import { exitRequestAddress } from '../../protocol/vault/addresses'
import type { ExitRequestedEvent, VaultEvent } from '../../protocol/vault/events'
import { TOKEN_PROGRAM } from '../../protocol/vault/programs'
import { settleInstruction } from '../../protocol/vault/settle'
import type { SettledEvent } from '../../protocol/vault/settled_event'
import type { SimChain } from './sim_chain'
import type { SimVenue } from './sim_venue'

const SIGNATURE = new Uint8Array(64).fill(1)

export class Relay {
  readonly states = new KnownStates()
  epoch = 0
  landed = 0
  refunded = 0
  exits_served = 0
  /** Newest slot whose events the venue knows as final. */
  #told = 0
  /** Batches the venue was told are confirmed, by id. */
  readonly #confirmed = new Map<number, SettledEvent>()

  constructor(
    readonly chain: SimChain,
    readonly venue: SimVenue,
    readonly settlement_seed: Uint8Array,
  ) {
    this.#told = chain.tip
  }

  /** One slot: maybe a settlement on its way, then everything the venue learns by it. */
  async tick(dropped: boolean): Promise<VaultEvent[]> {
    const { chain, venue } = this
    if (!dropped) await this.#offer()
    const events = chain.advance()
    for (const event of events) this.#seen(event)
    this.#finalize()
    venue.must({ kind: 'slot', slot: chain.tip })
    venue.hashAll()
    return events
  }

  fork(depth: number): VaultEvent[] {
    const lost = this.chain.fork(depth)
    for (const event of lost) {
      if (event.kind === 'settled') {
        this.#confirmed.delete(event.batch)
        this.#stage(event, 'submitted')
      }
      if (event.kind === 'exit_requested') this.#exit(event, 'vanished')
    }
    return lost
  }

  async #offer(): Promise<void> {
    const { chain, venue } = this
    const vault = chain.vault()
    const payload = payloadOf(venue.state, vault.config.last_batch + 1)
    const state = payload && this.states.cite(vault, payload.leaf_count_min)
    if (!payload || !state) return
    const { batch_id, nullifiers, outputs, spent_root } = payload
    const instruction = settleInstruction({
      program: chain.program,
      settlement_signer: publicKeyOf(this.settlement_seed),
      epoch: this.epoch,
      batch: batch_id,
      cited_leaf_count: state.leaf_count,
      cited_root: state.root,
      spent_root,
      journal_seq: venue.seq,
      journal_head: venue.head,
      nullifiers,
      outputs,
      payouts: payload.payouts.map((payout) => this.#payout(payout)),
    })
    const transaction = new Uint8Array(1)
    venue.must({
      kind: 'batch_signed',
      signed: { batch_id, signature: SIGNATURE, transaction, last_valid_block_height: chain.tip + 150 },
    })
    await chain.send(instruction, [this.settlement_seed])
  }

  #payout({ nullifier, refund_inner: inner, ...payout }: SettlementPayload['payouts'][number]) {
    const fields = { ...payout, inner, token_program: TOKEN_PROGRAM }
    if (nullifier === undefined) return fields
    const account = this.chain.data(exitRequestAddress(this.chain.program, nullifier))
    const request = account && decodeExitRequest(account)
    if (!request) throw new Error('an exit is paid whose request is not there')
    return { ...fields, exit: { nullifier, bond_payer: request.bond_payer } }
  }

  #seen(event: VaultEvent): void {
    if (event.kind === 'settled') {
      this.#stage(event, 'submitted')
      this.#stage(event, 'confirmed')
      this.#confirmed.set(event.batch, event)
    }
    if (event.kind === 'exit_requested') this.#exit(event, 'confirmed')
  }

  /** Finalized leaves, checked against every state the chain knows on the way, then stages and requests. */
  #finalize(): void {
    const { chain, venue } = this
    const { tree, ring } = chain.vault()
    for (; this.#told < chain.finalized; this.#told++) {
      const events = chain.eventsIn(this.#told + 1)
      const leaves = events.flatMap(leavesOf)
      if (leaves.length > 0) {
        const first_index = venue.state.leaves.size
        appendLeaves(venue.trees, first_index, leaves)
        venue.must({ kind: 'leaves', first_index, leaves, slot: this.#told + 1 })
      }
      for (const event of events) {
        if (event.kind === 'exit_requested') this.#exit(event, 'finalized')
        if (event.kind !== 'settled') continue
        this.#confirmed.delete(event.batch)
        this.#stage(event, 'finalized')
        this.#count(event)
      }
      this.#verify([tree, ...ring.states])
    }
  }

  #verify(known: { leaf_count: number; root: Uint8Array }[]): void {
    const { notes } = this.venue.trees
    for (const state of known) {
      if (state.leaf_count !== notes.leaf_count) continue
      if (toHex(state.root) !== toHex(notes.root())) throw new Error('the note trees differ')
      this.states.verified({ leaf_count: state.leaf_count, root: state.root })
    }
  }

  #count({ payouts }: SettledEvent): void {
    this.landed += 1
    this.refunded += payouts.filter(({ refund }) => refund !== undefined).length
    this.exits_served += payouts.filter(({ kind }) => kind === 'exit').length
  }

  #stage(event: SettledEvent, stage: BatchStage['stage']): void {
    const payouts = event.payouts.map(({ refund }): BatchStage['payouts'][number] =>
      refund
        ? { outcome: 'refunded', refund_commitment: refund.commitment, refund_leaf_index: refund.leaf_index }
        : { outcome: 'paid' },
    )
    const slot = this.chain.tip
    this.venue.must({
      kind: 'batch_stage',
      stage: { batch_id: event.batch, stage, signature: SIGNATURE, slot, payouts },
    })
  }

  #exit(event: ExitRequestedEvent, stage: 'confirmed' | 'finalized' | 'vanished'): void {
    const { nullifier, commitment, mint, amount, destination, refund_inner, deadline_s } = event
    const request_account = exitRequestAddress(this.chain.program, nullifier)
    const request = { nullifier, commitment, mint, amount, destination, refund_inner, request_account, stage }
    this.venue.must({ kind: 'exit_requested', request: { ...request, deadline_unix_s: deadline_s } })
  }
}

/** Leaves an event appended, in order. */
export function leavesOf(event: VaultEvent): Uint8Array[] {
  if (event.kind === 'deposited') return [event.commitment]
  if (event.kind !== 'settled') return []
  const refunds = event.payouts.flatMap(({ refund }) => (refund ? [refund.commitment] : []))
  return [...event.outputs.map(({ commitment }) => commitment), ...refunds]
}
