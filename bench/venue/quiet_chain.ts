/**
 * Simulates a chain in memory behind ChainPort: slots pass, epochs open, every settlement batch lands at once. It checks
 * nothing and costs almost nothing, so that the engine is measured; the program bench measures the chain.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type {
  BatchDecision,
  BatchStage,
  ChainPort,
  ClosePosition,
  SignedBatch,
  VaultConfig,
  VaultMint,
} from '../../engine/ports'
import { signingKey } from '../../protocol/ed25519'
import { hexOf, MINTS, named } from './bench_config'

type StartArgs = Parameters<ChainPort['start']>[0]
/** State that a restart of the venue must find again. */
type Kept = Pick<VaultConfig, 'epoch' | 'last_batch' | 'journal_seq' | 'leaf_count'> & {
  slot: number
  boot_nonce: string
  journal_head: string
}

const FIRST: Kept = {
  slot: 100,
  epoch: 0,
  last_batch: 0,
  journal_seq: 0,
  leaf_count: 0,
  boot_nonce: '00'.repeat(16),
  journal_head: '00'.repeat(32),
}

export class QuietChain implements ChainPort {
  readonly genesis_hash = named('genesis')
  readonly program_id = named('program')
  readonly config_account = named('config')
  private readonly kept: Kept
  private readonly file: string
  private args: StartArgs | undefined
  private timer: Timer | undefined
  /** When the newest slot came. */
  private slot_at_ms = performance.now()

  /** Remembers its head in `dir`. */
  constructor(
    dir: string,
    private readonly slot_ms: number,
  ) {
    this.file = join(dir, 'quiet-chain.json')
    this.kept = existsSync(this.file) ? (JSON.parse(readFileSync(this.file, 'utf8')) as Kept) : { ...FIRST }
  }

  get sink(): StartArgs['sink'] {
    return this.args!.sink
  }
  get leaf_count(): number {
    return this.kept.leaf_count
  }

  /** Leaves that a bench added to the journal without the watcher. */
  countLeaves(count: number): void {
    this.kept.leaf_count += count
  }

  async *readSettled(): AsyncGenerator<[]> {}

  async readConfig(): Promise<VaultConfig> {
    return {
      ...this.kept,
      slot: this.kept.slot,
      boot_nonce: Uint8Array.fromHex(this.kept.boot_nonce),
      journal_head: Uint8Array.fromHex(this.kept.journal_head),
      admin: named('admin'),
      settlement_signer: signingKey(named('settlement')).public_key,
      exit_delay_s: 604_800,
      generation: 0,
      commit_seq: 0,
      commit_head: new Uint8Array(32),
      spent_root: new Uint8Array(32),
      spent_count: 0,
      queue: { capacity: 60, next_number: 1, entries: [] },
      note_root: new Uint8Array(32),
      frozen: false,
      paused: false,
      pending: [],
      announced: [],
      outage: undefined,
    }
  }

  async readMints(): Promise<VaultMint[]> {
    return MINTS.map(({ mint, decimals }) => ({
      mint,
      vault: named('vault'),
      decimals,
      balance: 1n << 60n,
      liabilities: 1n << 60n,
      freezable: false,
      min_deposit: 1n,
      min_exit: 1n,
      slot: this.kept.slot,
    }))
  }

  /**
   * Elapsed time for the venue. At most one slot passes until the next one comes: a process that a loaded machine runs late must
   * not take that for a stall of the chain.
   */
  monotonicMs = (): number => {
    const since_ms = Math.min(performance.now() - this.slot_at_ms, this.slot_ms)
    return Math.floor(this.kept.slot * this.slot_ms + since_ms)
  }

  view() {
    return { slot: this.kept.slot, lag_ms: 0, slot_ms: this.slot_ms, unix_ms: Date.now() }
  }
  lease() {
    return { age_ms: 0, covered_seq: this.kept.journal_seq }
  }
  health(): ReturnType<ChainPort['health']> {
    return { settlement: 'wired', reasons: [], overdue: false }
  }
  figures() {
    return { providers: 1, providers_agreeing: 1, fee_payer_lamports: 1_000_000_000n }
  }

  async openEpoch(
    args: Parameters<ChainPort['openEpoch']>[0],
    record: (signature: Uint8Array, transaction: Uint8Array) => Promise<void>,
  ) {
    const signature = new Uint8Array(64)
    await record(signature, new Uint8Array(200))
    const { epoch, boot_nonce, seq, head } = args
    Object.assign(this.kept, { epoch, boot_nonce: hexOf(boot_nonce) })
    this.keepHead(seq, head)
    return { slot: this.kept.slot, signature, confirmed_ms: Number.NEGATIVE_INFINITY }
  }

  start(args: StartArgs): void {
    this.args = args
    this.timer = setInterval(() => {
      this.slot_at_ms = performance.now()
      args.sink.slot(++this.kept.slot)
    }, this.slot_ms)
    // Ends when the outbox does: a closed journal rejects.
    this.land(args).catch(() => undefined)
  }

  async anchor(_: number, { seq, head }: { seq: number; head: Uint8Array }): Promise<void> {
    this.keepHead(seq, head)
  }

  /** Every commit lands at once. */
  async commit({ seq, head, slot }: ClosePosition): Promise<BatchDecision> {
    this.keepHead(seq, head)
    return { outcome: 'committed', slot, epoch: this.kept.epoch, commit_seq: seq }
  }
  matched(): void {}

  async close(): Promise<void> {
    clearInterval(this.timer)
    this.args = undefined
  }

  private keepHead(seq: number, head: Uint8Array): void {
    Object.assign(this.kept, { journal_seq: seq, journal_head: hexOf(head) })
    writeFileSync(this.file, JSON.stringify(this.kept))
  }

  private async land({ outbox, sink }: StartArgs): Promise<void> {
    while (this.args !== undefined) {
      const batch_id = this.kept.last_batch + 1
      await outbox.waitForPayload(batch_id)
      const payload = outbox.payload(batch_id)
      if (payload === undefined) continue
      const signature = named(`batch ${batch_id}`, 64)
      const signed: SignedBatch = {
        batch_id,
        signature,
        transaction: new Uint8Array(1_200),
        last_valid_block_height: this.kept.slot + 150,
      }
      await outbox.recordSigned(signed)
      this.kept.last_batch = batch_id
      const first = this.kept.leaf_count
      this.kept.leaf_count += payload.outputs.length
      for (const stage of ['submitted', 'confirmed', 'finalized'] as const) {
        const fact: BatchStage = { batch_id, stage, signature, slot: this.kept.slot }
        await outbox.recordStage(fact)
      }
      const leaves = payload.outputs.map(({ commitment }) => commitment)
      await sink.leaves(first, leaves, this.kept.slot)
    }
  }
}
