/** Keeps the outbox in memory as a journal would, and rejects records that a journal must never contain. */
import type {
  BatchStage,
  OpenPayout,
  OutboxPort,
  PayoutStage,
  SettlementPayload,
  SignedBatch,
  SpentProof,
} from '../../engine/ports'
import { encodeBase58 } from '../../protocol/base58'
import { u64Le, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'

export class MemoryOutbox implements OutboxPort {
  readonly payloads = new Map<number, SettlementPayload>()
  readonly signings: SignedBatch[] = []
  readonly stages: BatchStage[] = []
  readonly payouts: PayoutStage[] = []
  readonly violations: string[] = []
  /** Called with each signed transaction before `recordSigned` resolves. */
  onSigned: (signed: SignedBatch) => Promise<void> | void = () => {}
  /** Called with each stage after it is recorded. */
  onStage: (stage: BatchStage) => void = () => {}
  spentProof: (nullifier: Uint8Array, batch_count: number) => Promise<SpentProof | undefined> = async () =>
    undefined
  #seq = 1
  #head = sha256(utf8('test journal'))
  #waiting: { batch_id: number; resolve: () => void }[] = []
  #listeners = new Set<() => void>()

  async dropExits(): Promise<void> {}

  add(payload: SettlementPayload): void {
    if (payload.batch_id !== this.payloads.size + 1) throw new Error('payloads come in order')
    this.payloads.set(payload.batch_id, payload)
    this.#append()
    const ready = this.#waiting.filter((one) => one.batch_id === payload.batch_id)
    for (const { resolve } of ready) resolve()
  }

  payload(batch_id: number): SettlementPayload | undefined {
    return this.stageOf(batch_id) === 'finalized' ? undefined : this.payloads.get(batch_id)
  }

  waitForPayload(batch_id: number): Promise<void> {
    if (this.payload(batch_id)) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ batch_id, resolve }))
  }

  signed(batch_id: number): SignedBatch | undefined {
    return this.signings.findLast((signed) => signed.batch_id === batch_id)
  }

  async recordSigned(signed: SignedBatch): Promise<void> {
    if (!this.payloads.has(signed.batch_id))
      this.violations.push(`signed batch ${signed.batch_id} has no payload`)
    await this.onSigned(signed)
    this.signings.push(signed)
    this.#append()
  }

  async recordStage(stage: BatchStage): Promise<boolean> {
    const { batch_id } = stage
    const before = this.stageOf(batch_id)
    if (before === 'finalized') this.violations.push(`batch ${batch_id} was final and became ${stage.stage}`)
    if (stage.stage !== 'submitted' && batch_id > 1 && !this.stageOf(batch_id - 1)) {
      this.violations.push(`batch ${batch_id} landed before its predecessor was seen`)
    }
    if (stage.stage === 'finalized' && batch_id > 1 && this.stageOf(batch_id - 1) !== 'finalized') {
      this.violations.push(`batch ${batch_id} became final before its predecessor`)
    }
    this.stages.push(stage)
    this.onStage(stage)
    this.#append()
    return true
  }

  openPayouts(): OpenPayout[] {
    return [...this.payloads.values()].flatMap(({ batch_id, payouts }) => {
      const landed = this.stageOf(batch_id)
      if (landed !== 'confirmed' && landed !== 'finalized') return []
      return payouts
        .filter(({ number }) => this.payoutOf(number)?.stage !== 'finalized')
        .map(({ number, mint, destination, amount }) => {
          const stage = this.payoutOf(number)
          const signature = stage && encodeBase58(stage.signature)
          return { number, mint, destination, amount, batch_id, signature }
        })
    })
  }

  async recordPayout(stage: PayoutStage): Promise<boolean> {
    if (this.payoutOf(stage.number)?.stage === 'finalized')
      this.violations.push(`payout ${stage.number} was final and became ${stage.stage}`)
    this.payouts.push(stage)
    this.#append()
    return true
  }

  payoutOf(number: number): PayoutStage | undefined {
    return this.payouts.findLast((stage) => stage.number === number)
  }

  head(): { seq: number; head: Uint8Array } {
    return { seq: this.#seq, head: this.#head }
  }

  stageOf(batch_id: number): BatchStage['stage'] | undefined {
    return this.stages.findLast((stage) => stage.batch_id === batch_id)?.stage
  }

  wasRecorded(signature: string): boolean {
    return this.signings.some((signed) => encodeBase58(signed.signature) === signature)
  }

  /** Resolves when `condition` holds after a record; checks now and at every change. */
  until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve()
    return new Promise((resolve) => {
      const check = (): void => {
        if (!condition()) return
        this.#listeners.delete(check)
        resolve()
      }
      this.#listeners.add(check)
    })
  }

  #append(): void {
    this.#seq += 1
    this.#head = sha256(this.#head, u64Le(this.#seq))
    for (const listener of [...this.#listeners]) listener()
  }
}
