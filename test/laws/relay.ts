/** Connects venue and chain, slot by slot: lands batches in order and reports finalized and reverted ones to the venue. */
import { KnownStates } from '../../engine/chain/watch/watch_leaves'
import { appendLeaves } from '../../engine/hashing/tree_files'
import { openPayouts, payloadOf } from '../../engine/machine/settlement/payload'
import type { BatchStage, PayoutStage } from '../../engine/ports'
import { equalBytes, toHex } from '../../protocol/bytes'
import { PAY_ENTRIES_MAX } from '../../protocol/limits'
import { publicKeyOf } from '../../protocol/sign'
import { decodeExitRequest } from '../../protocol/vault/accounts'
import { exitRequestAddress, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import type { EventOf, VaultEvent } from '../../protocol/vault/events'
import { closeExitInstruction } from '../../protocol/vault/exits'
import { payInstruction, settleInstruction } from '../../protocol/vault/settle'
import type { SimChain, SimVenue } from './sim_venue'

type Signer = {
  chain: SimChain
  venue: SimVenue
  states: KnownStates
  epoch: number
  settlement_seed: Uint8Array
}

/** Undefined until the batch is hashed and a state that covers it is known. `salt` makes another signature. */
async function signBatch(signer: Signer, batch_id: number, salt = 0): Promise<Uint8Array | undefined> {
  const { chain, venue, epoch, settlement_seed } = signer
  const payload = payloadOf(venue.state, batch_id)
  const state = payload && signer.states.cite([chain.vault()], payload.leaf_count_min)
  if (!payload || !state) return undefined
  const { nullifiers, outputs, payouts } = payload
  const instruction = settleInstruction({
    program: chain.program,
    settlement_signer: publicKeyOf(settlement_seed),
    epoch,
    batch: batch_id,
    cited_leaf_count: state.leaf_count,
    cited_root: state.root,
    journal_seq: venue.seq,
    journal_head: venue.head,
    nullifiers,
    outputs,
    payouts: payouts.map(({ refund_inner: inner, ...payout }) => ({ ...payout, inner })),
  })
  return chain.sign(instruction, [settlement_seed], salt)
}

const SIGNATURE = new Uint8Array(64).fill(1)
/** Batches that may be on their way at a time. */
const AHEAD = 3

/** Where a process can die within one slot, in this order. */
export const DEATHS = [
  'signed',
  'sent',
  'landed',
  'confirmed',
  'leaves_told',
  'finalized',
  'closed',
  'slot_applied',
  'hashing',
] as const
type Death = (typeof DEATHS)[number]
/** The process is gone, with all of its memory. */
export class Died extends Error {}

export type Weather = {
  /** Nothing is signed: the epoch is not open yet. */
  silent: boolean
  /** The settlements of this slot are journaled and signed and never reach a block. */
  dropped: boolean
  /** They arrive twice, under two signatures. */
  doubled: boolean
  /** The chain's verdict on a closed batch; undefined leaves it undecided. */
  decides: 'committed' | 'void' | undefined
  death: Death | undefined
}
export const FAIR: Weather = {
  silent: false,
  dropped: false,
  doubled: false,
  decides: 'committed',
  death: undefined,
}

/** One process's life: everything here is lost with it. */
export class Relay {
  readonly states = new KnownStates(1)
  /** The newest signed bytes, which anybody may send again. */
  last_wire: Uint8Array | undefined
  /** Newest slot whose events the venue knows, and knows as final. */
  #seen: number
  #told: number
  #weather = FAIR
  /** Nullifiers of served requests, whose bonds return. */
  readonly #served = new Set<Uint8Array>()

  constructor(
    readonly chain: SimChain,
    readonly venue: SimVenue,
    readonly settlement_seed: Uint8Array,
    readonly epoch: number,
    readonly counts: { landed: number; refunded: number; exits_served: number },
  ) {
    this.#told = toldUntil(chain, venue)
    this.#seen = this.#told
  }

  /** One slot: settlements on their way, then all reports of it to the venue. @throws Died */
  async tick(weather: Weather): Promise<VaultEvent[]> {
    const { chain, venue } = this
    this.#weather = weather
    if (!weather.silent) {
      await this.#offer()
      if (!weather.dropped) await this.#pay()
    }
    const events = chain.advance()
    this.#mayDie('landed', () => events.some(({ kind }) => kind === 'settled'))
    this.learn()
    venue.advance(chain.tip)
    this.#mayDie('closed', () => venue.state.closed !== undefined)
    if (weather.decides !== undefined) venue.decide(weather.decides)
    this.#mayDie('slot_applied', () => venue.state.settlement.last_batch > venue.state.settlement.last_hashed)
    venue.hashAll(() => this.#mayDie('hashing'))
    return events
  }

  /** Everything that happened up to the tip. */
  learn(): void {
    while (this.#seen < this.chain.tip) {
      this.#seen += 1
      for (const event of this.chain.eventsIn(this.#seen)) this.#happened(event)
    }
    this.#finalize()
  }

  /** Work that a boot finds undone: batches the chain no longer has, requests that vanished. */
  rewind(): void {
    const { chain, venue } = this
    const { last_batch } = chain.vault().config
    for (const batch of [...venue.state.settlement.batches.values()]) {
      if (batch.progress === 'confirmed' && batch.batch_id > last_batch)
        this.#stage({ batch: batch.batch_id }, 'submitted')
    }
    for (const { number } of chain.queue()) {
      const payout = venue.state.settlement.queued.get(number)
      if (payout?.kind === 'withdrawal' && payout.payout_stage === 'confirmed')
        this.#payout({ number, refund: undefined }, 'submitted')
    }
    for (const exit of [...venue.state.settlement.exits.values()]) {
      if (exit.settlement_batch > 0 || chain.data(exit.request_account) !== undefined) continue
      const { deadline_unix_s: deadline_s, ...known } = exit
      this.#exit({ ...known, kind: 'exit_requested', deadline_s, leaf_index: 0 }, 'vanished')
    }
  }

  undone(lost: readonly VaultEvent[]): void {
    for (const event of lost) {
      if (event.kind === 'settled') this.#stage(event, 'submitted')
      if (event.kind === 'paid') this.#payout(event, 'submitted')
      if (event.kind === 'exit_requested') this.#exit(event, 'vanished')
    }
  }

  #mayDie(at: Death, reached: () => boolean = () => true): void {
    if (this.#weather.death === at && reached()) throw new Died(at)
  }

  async #offer(): Promise<void> {
    const { chain, venue } = this
    const { last_batch } = chain.vault().config
    for (let batch_id = last_batch + 1; batch_id <= last_batch + AHEAD; batch_id++) {
      const wire = await signBatch(this, batch_id)
      if (wire === undefined) return
      const signed = { batch_id, signature: SIGNATURE, transaction: wire.slice(0, 64) }
      venue.must({ kind: 'batch_signed', signed: { ...signed, last_valid_block_height: chain.tip + 150 } })
      this.last_wire = wire
      this.#mayDie('signed')
      if (this.#weather.dropped) continue
      chain.enqueue(wire, true)
      // Another signature over the same payload, as after a reply that was lost.
      if (this.#weather.doubled) chain.enqueue((await signBatch(this, batch_id, 1))!, true)
      this.#mayDie('sent')
    }
  }

  /** Pays open entries, and returns the bonds of served requests. */
  async #pay(): Promise<void> {
    const { chain, venue, settlement_seed } = this
    const { program } = chain
    const open = new Map(openPayouts(venue.state).map((payout) => [payout.number, payout]))
    const due = chain.queue().filter(({ number }) => open.has(number))
    for (const { number, mint, destination, amount } of due) {
      const own = open.get(number)!
      const equal = equalBytes(own.mint, mint) && equalBytes(own.destination, destination)
      if (!equal || own.amount !== amount)
        throw new Error(`the program gave number ${number} to another payout`)
    }
    const entries = due.slice(0, PAY_ENTRIES_MAX).map((entry) => ({ ...entry, token_program: TOKEN_PROGRAM }))
    if (entries.length > 0)
      await chain.send(payInstruction({ program, refund: false, entries }), [settlement_seed])
    for (const nullifier of this.#served) {
      const account = chain.data(exitRequestAddress(program, nullifier))
      const request = account && decodeExitRequest(account)
      if (!request?.served) {
        this.#served.delete(nullifier)
        continue
      }
      const { bond_payer } = request
      await chain.send(closeExitInstruction({ program, nullifier, bond_payer }), [settlement_seed])
    }
  }

  #happened(event: VaultEvent): void {
    if (event.kind === 'settled') {
      this.#stage(event, 'submitted')
      this.#stage(event, 'confirmed')
      this.#mayDie('confirmed')
    }
    if (event.kind === 'paid') this.#payout(event, 'confirmed')
    if (event.kind === 'exit_requested') this.#exit(event, 'confirmed')
  }

  /** Finalized leaves, checked against every state the chain knows on the way, then stages and requests. */
  #finalize(): void {
    const { chain, venue } = this
    const { tree, ring } = chain.vault()
    for (; this.#told < chain.finalized; this.#told++) {
      const events = chain.eventsIn(this.#told + 1)
      const known = venue.state.leaves.size
      const leaves = events.flatMap(leavesOf).filter(({ index }) => index >= known)
      if (leaves.length > 0) {
        const fresh = leaves.map(({ leaf }) => leaf)
        appendLeaves(venue.trees, known, fresh)
        venue.must({ kind: 'leaves', first_index: known, leaves: fresh, slot: this.#told + 1 })
        this.#mayDie('leaves_told')
      }
      for (const event of events) {
        if (event.kind === 'exit_requested') this.#exit(event, 'finalized')
        if (event.kind === 'settled' && this.#stage(event, 'finalized')) this.#count(event)
        if (event.kind === 'paid') this.#payout(event, 'finalized')
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

  #count({ payouts }: EventOf<'settled'>): void {
    const exits = payouts.filter(({ kind }) => kind === 'exit')
    this.counts.landed += 1
    this.counts.exits_served += exits.length
    for (const { nullifier, served } of exits) if (served) this.#served.add(nullifier!)
    this.#mayDie('finalized')
  }

  /** Answers whether the venue did not know. */
  #stage(event: Pick<EventOf<'settled'>, 'batch'>, stage: BatchStage['stage']): boolean {
    const known = this.venue.state.settlement.landed?.batch_id ?? 0
    if (event.batch <= known) return false
    const told = { batch_id: event.batch, stage, signature: SIGNATURE, slot: this.chain.tip }
    this.venue.must({ kind: 'batch_stage', stage: told })
    return true
  }

  #payout({ number, refund }: Pick<EventOf<'paid'>, 'number' | 'refund'>, stage: PayoutStage['stage']): void {
    const landed = stage !== 'submitted'
    const told: PayoutStage = {
      number,
      stage,
      outcome: landed ? (refund === undefined ? 'paid' : 'refunded') : undefined,
      refund_commitment: landed ? refund?.commitment : undefined,
      refund_leaf_index: landed ? refund?.leaf_index : undefined,
      signature: SIGNATURE,
      slot: this.chain.tip,
    }
    if (stage === 'finalized' && this.venue.state.settlement.queued.has(number) && refund !== undefined)
      this.counts.refunded += 1
    this.venue.must({ kind: 'payout_stage', stage: told, refund_spent: false })
  }

  #exit(event: EventOf<'exit_requested'>, stage: 'confirmed' | 'finalized' | 'vanished'): void {
    const { nullifier, commitment, mint, amount, destination, refund_inner, deadline_s } = event
    const request_account = exitRequestAddress(this.chain.program, nullifier)
    const request = { nullifier, commitment, mint, amount, destination, refund_inner, request_account, stage }
    this.venue.must({ kind: 'exit_requested', request: { ...request, deadline_unix_s: deadline_s } })
  }
}

/** The newest final slot up to which the venue's journal has everything. */
function toldUntil(chain: SimChain, { state }: SimVenue): number {
  const isKnown = (event: VaultEvent): boolean => {
    if (event.kind === 'settled' && event.batch > (state.settlement.landed?.batch_id ?? 0)) return false
    if (event.kind === 'paid' && state.settlement.queued.has(event.number)) return false
    return leavesOf(event).every(({ index }) => index < state.leaves.size)
  }
  // Requests are reported again: known ones change nothing.
  let slot = Math.max(0, chain.finalized - 2)
  while (slot > 0 && !chain.eventsIn(slot).every(isKnown)) slot -= 1
  return slot
}

/** Leaves an event appended, in order. */
function leavesOf(event: VaultEvent): { index: number; leaf: Uint8Array }[] {
  if (event.kind === 'deposited') return [{ index: event.leaf_index, leaf: event.commitment }]
  if (event.kind === 'paid' && event.refund)
    return [{ index: event.refund.leaf_index, leaf: event.refund.commitment }]
  if (event.kind !== 'settled') return []
  return event.outputs.map(({ commitment: leaf }, at) => ({ index: event.first_leaf_index + at, leaf }))
}
