/** The life of a settlement batch between packing and finality, as one state machine, and the batches under way. */
import { decodeSettleData } from '../../../protocol/vault/settle'
import { LIMITS } from '../../limits'
import type { OutboxPort, SignedBatch } from '../../ports'
import { transactionInstructions } from '../client/transaction_status'

type Phase =
  /** No transaction of it may land any longer, or none was signed. */
  | 'unsigned'
  /** The newest transaction may land. */
  | 'live'
  /** A quorum shows the newest transaction in a block. */
  | 'executed'
  /** A quorum shows that the program rejected it, not finalized yet. */
  | 'rejected'

export class RelayedBatch {
  /** The journaled transaction and every one signed in this run; oldest first. */
  readonly #signed: SignedBatch[]
  #phase: Phase
  #ahead: boolean
  #confirmed = false
  #landed: Uint8Array | undefined
  #sent_slot = Number.NEGATIVE_INFINITY
  #sign_slot_min = 0
  #refusals = 0

  /** @param epoch of this run: a journaled transaction of an earlier one is fenced and cannot succeed */
  constructor(
    readonly batch_id: number,
    journaled: SignedBatch | undefined,
    epoch: number,
  ) {
    this.#signed = journaled ? [journaled] : []
    this.#phase = journaled && epochOfSigned(journaled) === epoch ? 'live' : 'unsigned'
    // The journal does not record how an earlier run signed it; with `true` a failure is no verdict.
    this.#ahead = journaled !== undefined
  }

  signed(signed: SignedBatch, ahead: boolean): void {
    this.#signed.push(signed)
    this.#ahead = ahead
    this.#phase = 'live'
  }

  submitted(slot: number): void {
    this.#sent_slot = slot
  }

  executed(): void {
    this.#phase = 'executed'
  }

  /** No block contains it, or no longer. */
  pending(): void {
    this.#phase = 'live'
  }

  rejected(): void {
    this.#phase = 'rejected'
  }

  /** It failed, and may succeed when signed again. @returns consecutive failures */
  refused(): number {
    this.#phase = 'unsigned'
    this.#refusals += 1
    return this.#refusals
  }

  /** Signed again only on answers that are all of later slots, in case it landed last of all. */
  expired(slot: number): void {
    this.#phase = 'unsigned'
    this.#sign_slot_min = slot + LIMITS.chain_lag_slots_max + 1
  }

  confirmed(signature: Uint8Array): void {
    this.#confirmed = true
    this.#landed = signature
  }

  reorged(): void {
    this.#confirmed = false
    this.#sent_slot = Number.NEGATIVE_INFINITY
  }

  get phase(): Phase {
    return this.#phase
  }

  get newest(): SignedBatch | undefined {
    return this.#signed.at(-1)
  }

  /** Every signature under which it may have landed; oldest first. */
  signatures(): Uint8Array[] {
    return this.#signed.map(({ signature }) => signature)
  }

  /** Signature under which it landed as far as was seen. */
  get landed(): Uint8Array | undefined {
    return this.#landed
  }

  get isConfirmed(): boolean {
    return this.#confirmed
  }

  /** Signed before the batch was next to land, so its failure is no verdict. */
  get isAhead(): boolean {
    return this.#ahead
  }

  maySign(slot: number): boolean {
    return this.#phase === 'unsigned' && slot >= this.#sign_slot_min
  }

  /** Slots since the newest transaction was sent. */
  unsentFor(slot: number): number {
    return slot - this.#sent_slot
  }

  /** Whether the newest transaction is in no block and can no longer land at block height `height`. */
  isExpired(height: number): boolean {
    return this.#phase === 'live' && height > this.newest!.last_valid_block_height
  }
}

/** Epoch cited by a journaled transaction; undefined for bytes that are no settlement. */
export function epochOfSigned(signed: SignedBatch): number | undefined {
  for (const { data } of transactionInstructions(signed.transaction)) {
    const settle = decodeSettleData(data)
    if (settle) return settle.epoch
  }
  return undefined
}

export class RelayedBatches {
  readonly #batches = new Map<number, RelayedBatch>()

  constructor(readonly args: { outbox: OutboxPort; epoch: number }) {}

  /** On first use in this run, a batch resumes from its journaled transaction. */
  of(batch_id: number): RelayedBatch {
    let batch = this.#batches.get(batch_id)
    if (!batch) {
      const { outbox, epoch } = this.args
      batch = new RelayedBatch(batch_id, outbox.signed(batch_id), epoch)
      this.#batches.set(batch_id, batch)
    }
    return batch
  }

  /** The run of open batches from `batch_id` on, ascending without gaps: each may land after the one before. */
  openFrom(batch_id: number): RelayedBatch[] {
    const open: RelayedBatch[] = []
    for (
      let batch = this.of(batch_id);
      batch.phase !== 'unsigned' && open.length < LIMITS.rpc_statuses_max;
    ) {
      open.push(batch)
      batch = this.of(batch.batch_id + 1)
    }
    return open
  }

  /** Batches with a higher id than `batch_id`, ascending. */
  after(batch_id: number): RelayedBatch[] {
    const later = [...this.#batches.values()].filter((batch) => batch.batch_id > batch_id)
    return later.sort((a, b) => a.batch_id - b.batch_id)
  }

  finalized(batch_id: number): void {
    this.#batches.delete(batch_id)
  }
}

/**
 * Limits how many batches may be sent behind the next one. A batch executed before its predecessor costs the fees of all
 * batches behind it, so each reordering halves the window, and each run of batches that land in order doubles it again. On a
 * cluster that reorders, batches are sent one by one.
 */
export class AheadWindow {
  #size: number = LIMITS.batches_ahead_max
  #in_order = 0
  #landed = 0
  /** Failures up to this batch belong to a reordering that is already counted. */
  #counted = 0

  get size(): number {
    return this.#size
  }

  /** @param batch_id newest confirmed batch; lower after a fork, which is no reordering */
  landed(batch_id: number): void {
    if (batch_id <= this.#landed) return
    this.#in_order += batch_id - this.#landed
    this.#landed = batch_id
    if (this.#in_order < LIMITS.batches_in_order) return
    this.#in_order = 0
    this.#size = Math.min(LIMITS.batches_ahead_max, Math.max(1, 2 * this.#size))
  }

  /** @param batch_id the failed batch @param newest newest batch in flight at that time */
  overtaken(batch_id: number, newest: number): void {
    if (batch_id <= this.#counted) return
    this.#counted = newest
    this.#in_order = 0
    this.#size = Math.floor(this.#size / 2)
  }
}
