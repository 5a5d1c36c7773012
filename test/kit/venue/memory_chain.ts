/**
 * A chain in memory behind ChainPort, with slots moved by hand. It enforces the vault program's rules: sequence, epoch,
 * liabilities, the payout queue; it computes both roots on its own trees.
 */
import { expect } from 'bun:test'
import {
  type BatchDecision,
  type BatchStage,
  type ChainPort,
  type ChainSinkPort,
  type ClosePosition,
  EpochTaken,
  type OutboxPort,
  type SettlementPayload,
  type SignedBatch,
  type VaultConfig,
} from '../../../engine/ports'
import { toHex } from '../../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../../protocol/notes/merkle_tree'
import { depositCommitment, noteInner } from '../../../protocol/notes/notes'

type StartArgs = Parameters<ChainPort['start']>[0]
type Mint = { mint: Uint8Array; decimals: number }

/** Survives a restart of the venue: the ledger itself. */
export class Ledger {
  slot = 100
  /** The chain's clock; a test may move it. */
  unixMs = (): number => Date.now()
  /** Commits land at once; `withheld` ones when a test lands them or decides otherwise. */
  withheld = false
  /** Monotonic time at which epochs count as confirmed. */
  confirmed_ms = Number.NEGATIVE_INFINITY
  readonly notes = new MerkleTree()
  readonly spent = new SpentLog()
  readonly settled: SettlementPayload[] = []
  readonly anchors: { seq: number; head: Uint8Array }[] = []
  readonly liabilities = new Map<string, bigint>()
  config: VaultConfig = {
    slot: 0,
    admin: bytes(32),
    settlement_signer: bytes(32),
    exit_delay_s: 604_800,
    epoch: 0,
    boot_nonce: new Uint8Array(16),
    generation: 0,
    last_batch: 0,
    journal_seq: 0,
    journal_head: new Uint8Array(32),
    commit_seq: 0,
    commit_head: new Uint8Array(32),
    spent_root: this.spent.root(),
    spent_count: 0,
    queue: { capacity: 60, next_number: 1, entries: [] },
    leaf_count: 0,
    note_root: this.notes.root(),
    frozen: false,
    paused: false,
    pending: [],
    announced: [],
    outage: undefined,
  }
  /** Runs when an opening begins, after the venue has read the chain. */
  before_opening: () => void = () => {}
  /** Runs when the venue has recorded an opening, before the chain shows it. */
  sent_opening: () => Promise<void> = async () => {}
  readonly genesis_hash = bytes(32)
  readonly program_id = bytes(32)
  readonly config_account = bytes(32)

  constructor(
    readonly mints: Mint[],
    settlement_signer: Uint8Array,
  ) {
    this.config = { ...this.config, settlement_signer }
  }

  /** Appends a deposit's leaf as the program does. */
  deposit(note: { owner: Uint8Array; mint: Uint8Array; amount: bigint; blinding: Uint8Array }): {
    commitment: Uint8Array
    leaf_index: number
  } {
    const leaf_index = this.notes.leaf_count
    const inner = noteInner(note.owner, note.blinding)
    const commitment = depositCommitment({ ...note, inner, leaf_index })
    this.append([commitment])
    this.add(note.mint, note.amount)
    return { commitment, leaf_index }
  }

  append(leaves: Uint8Array[]): void {
    this.notes.append(leaves)
    this.config = { ...this.config, leaf_count: this.notes.leaf_count, note_root: this.notes.root() }
  }

  add(mint: Uint8Array, amount: bigint): void {
    const total = (this.liabilities.get(toHex(mint)) ?? 0n) + amount
    if (total < 0n) throw new Error('payouts exceed liabilities')
    this.liabilities.set(toHex(mint), total)
  }
}

export class MemoryChain implements ChainPort {
  private args: StartArgs | undefined
  health_now: ReturnType<ChainPort['health']> = { settlement: 'wired', reasons: [], overdue: false }
  lag_ms = 0
  /** Age of the newest view of the own epoch; beyond `lease_ms` the lease is lost. */
  lease_age_ms = 0
  /** Set to make the next calls of `anchor` fail. */
  anchor_fails = false

  /** @param settlement_key of this boot; absent: the vault's */
  constructor(
    readonly ledger: Ledger,
    private readonly settlement_key = ledger.config.settlement_signer,
  ) {}

  get genesis_hash() {
    return this.ledger.genesis_hash
  }
  get program_id() {
    return this.ledger.program_id
  }
  get config_account() {
    return this.ledger.config_account
  }

  async readConfig(): Promise<VaultConfig> {
    return { ...this.ledger.config, slot: this.ledger.slot }
  }
  async readMints() {
    return this.ledger.mints.map(({ mint, decimals }) => ({
      mint,
      vault: bytes(32),
      decimals,
      balance: this.ledger.liabilities.get(toHex(mint)) ?? 0n,
      liabilities: this.ledger.liabilities.get(toHex(mint)) ?? 0n,
      freezable: false,
      min_deposit: 1n,
      min_exit: 1n,
      slot: this.ledger.slot,
    }))
  }
  async *readSettled(after: number) {
    const { settled, slot } = this.ledger
    yield settled.slice(after).map(({ batch_id, nullifiers }) => ({
      batch_id,
      nullifiers,
      signature: new Uint8Array(64),
      slot,
    }))
  }
  view() {
    return { slot: this.ledger.slot, lag_ms: this.lag_ms, slot_ms: 400, unix_ms: this.ledger.unixMs() }
  }
  lease() {
    const { journal_seq, pending } = this.ledger.config
    const restore_announced = pending.some(({ action }) => action === 'authorize_restore')
    return { age_ms: this.lease_age_ms, covered_seq: journal_seq, restore_announced }
  }
  health() {
    return this.health_now
  }
  figures() {
    return { providers: 1, providers_agreeing: 1, fee_payer_lamports: 1_000_000_000n }
  }

  async openEpoch(
    args: Parameters<ChainPort['openEpoch']>[0],
    record: (signature: Uint8Array, transaction: Uint8Array) => Promise<void>,
  ) {
    this.ledger.before_opening()
    const { journal_seq, journal_head } = this.ledger.config
    if (!(await args.passes({ seq: journal_seq, head: journal_head })))
      throw new EpochTaken('another position')
    const signature = bytes(64)
    await record(signature, bytes(200))
    await this.ledger.sent_opening()
    if (args.epoch !== this.ledger.config.epoch + 1) throw new EpochTaken('epoch out of sequence')
    const { epoch, boot_nonce, seq, head } = args
    this.ledger.config = {
      ...this.ledger.config,
      settlement_signer: this.settlement_key,
      epoch,
      boot_nonce,
      journal_seq: seq,
      journal_head: head,
    }
    // Final at once, and long ago: only the tests of leases wait for the end of one.
    return { slot: this.ledger.slot, signature, confirmed_ms: this.ledger.confirmed_ms }
  }

  start(args: StartArgs): void {
    this.args = args
  }
  async anchor(seq: number, own: { seq: number; head: Uint8Array }): Promise<void> {
    if (this.anchor_fails) throw new Error('the cluster does not answer')
    const { config, anchors } = this.ledger
    if (config.journal_seq >= seq) return
    anchors.push(own)
    this.ledger.config = { ...config, journal_seq: own.seq, journal_head: own.head }
  }
  async close(): Promise<void> {
    this.args = undefined
  }

  /** The newest commit that was sent, and the function that resolves it. */
  sent: { close: ClosePosition; decide: (decision: BatchDecision) => void } | undefined

  commit(close: ClosePosition): Promise<BatchDecision> {
    return new Promise((decide) => {
      this.sent = { close, decide }
      if (!this.ledger.withheld) this.landCommit()
    })
  }
  matched(): void {}

  landCommit(): void {
    const { close, decide } = this.sent!
    const { seq, head } = close
    const { config, slot } = this.ledger
    this.ledger.config = {
      ...config,
      commit_seq: seq,
      commit_head: head,
      journal_seq: seq,
      journal_head: head,
    }
    decide({ outcome: 'committed', slot, epoch: config.epoch, commit_seq: seq })
  }

  voidCommit(): void {
    const { config, slot } = this.ledger
    this.sent!.decide({ outcome: 'void', slot, epoch: config.epoch, commit_seq: config.commit_seq })
  }

  get sink(): ChainSinkPort {
    return this.started().sink
  }
  get outbox(): OutboxPort {
    return this.started().outbox
  }

  /** Resolves when no batch is undecided and everything is durable. */
  decided = async (): Promise<void> => {}

  /** Confirmed slots, each reported; resolves when a batch that closed is decided, unless commits are withheld. */
  async tick(slots = 1): Promise<void> {
    this.ledger.slot += slots
    this.sink.slot(this.ledger.slot)
    if (!this.ledger.withheld) await this.decided()
  }

  /** Reports every leaf as finalized. */
  async finalizeLeaves(from = 0): Promise<void> {
    const { notes, slot } = this.ledger
    const leaves = Array.from({ length: notes.leaf_count - from }, (_, at) => notes.leaf(from + at))
    await this.sink.leaves(from, leaves, slot)
  }

  /** Lands the next settlement batch, through submitted, confirmed and finalized, and by default pays its payouts. */
  async settleNext(pays = true): Promise<SettlementPayload> {
    const batch_id = this.ledger.config.last_batch + 1
    await this.outbox.waitForPayload(batch_id)
    const payload = this.outbox.payload(batch_id)
    if (payload === undefined) throw new Error('a promised payload is not there')
    const signed: SignedBatch = {
      batch_id,
      signature: bytes(64),
      transaction: bytes(100),
      last_valid_block_height: this.ledger.slot + 150,
    }
    await this.outbox.recordSigned(signed)
    expect(this.outbox.signed(batch_id)).toEqual(signed)
    await this.stage(signed, 'submitted')
    this.apply(payload)
    await this.stage(signed, 'confirmed')
    const first = this.ledger.notes.leaf_count - payload.outputs.length
    await this.finalizeLeaves(first)
    await this.stage(signed, 'finalized')
    if (pays) await this.payAll()
    return payload
  }

  /** Checks and changes of the program. */
  private apply(payload: SettlementPayload): void {
    const { ledger } = this
    if (ledger.notes.leaf_count < payload.leaf_count_min) throw new Error('unknown state')
    ledger.spent.append([spentLogLeaf(payload.batch_id, payload.nullifiers)])
    ledger.append(payload.outputs.map(({ commitment }) => commitment))
    const { queue, spent_count } = ledger.config
    const entries = [...queue.entries]
    for (const { refund_inner, ...payout } of payload.payouts) {
      ledger.add(payout.mint, -payout.amount)
      expect(payout.number).toBe(queue.next_number + entries.length - queue.entries.length)
      entries.push({ ...payout, queued_slot: ledger.slot })
    }
    if (entries.length > queue.capacity) throw new Error('the payout queue is full')
    ledger.settled.push(payload)
    const { seq, head } = this.outbox.head()
    ledger.config = {
      ...ledger.config,
      last_batch: payload.batch_id,
      journal_seq: seq,
      journal_head: head,
      spent_root: ledger.spent.root(),
      spent_count: spent_count + payload.nullifiers.length,
      queue: { ...queue, next_number: queue.next_number + payload.payouts.length, entries },
    }
  }

  /** Pays every open payout, as the relayer's transactions do. */
  async payAll(): Promise<void> {
    const { ledger } = this
    for (const { number } of this.outbox.openPayouts()) {
      const { queue } = ledger.config
      const entries = queue.entries.filter((entry) => entry.number !== number)
      expect(entries).toHaveLength(queue.entries.length - 1)
      ledger.config = { ...ledger.config, queue: { ...queue, entries } }
      for (const stage of ['confirmed', 'finalized'] as const) {
        const signature = bytes(64)
        await this.outbox.recordPayout({ number, stage, outcome: 'paid', signature, slot: ledger.slot })
      }
    }
  }

  private async stage(signed: SignedBatch, stage: BatchStage['stage']): Promise<void> {
    const recorded = await this.outbox.recordStage({
      batch_id: signed.batch_id,
      stage,
      signature: signed.signature,
      slot: this.ledger.slot,
    })
    expect(recorded).toBe(true)
  }

  get is_started(): boolean {
    return this.args !== undefined
  }

  private started(): StartArgs {
    if (this.args === undefined) throw new Error('the chain was not started')
    return this.args
  }
}

/** Random bytes; no promise tested with them depends on their value. */
export function bytes(count: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(count))
}
