/**
 * Measures the time from a close to its decision: `bun bench/match_latency.ts [--closes N] [--late N]`. Commits go to the
 * vault program on an embedded chain at 400 and at 200 ms per slot: latency, cost, and the share of void batches when
 * transactions land late. The match itself follows in the same turn (`auction_turn`).
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openChain } from '../engine/chain/open_chain'
import { openHashing } from '../engine/hashing/open_hashing'
import { LIMITS } from '../engine/limits'
import type { ChainPort } from '../engine/ports'
import { encodeBase58 } from '../protocol/base58'
import { publicKeyOf } from '../protocol/sign'
import { makeGenesis } from '../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../sandbox/chain/open_embedded_chain'
import { simulatedMachine } from '../sandbox/enclave/simulated_machine'
import { type Figure, numbers, report } from './kit/figures'
import { PROGRAM } from './settling/batch_work'
import { MemoryOutbox } from './settling/memory_outbox'
import { COMPOSE_HASH, startPort } from './settling/settling_venue'

const { closes, late } = numbers({ closes: 20, late: 2 })
const SLOTS_MS = [400, 200]
const DELAYS = [1, 2, 4, 8, 12, 16, 20]
const LAMPORTS_PER_SOL = 1_000_000_000

class CommittingVenue {
  private head = { seq: 0, head: new Uint8Array(32) }
  private constructor(
    readonly chain: OpenedChain,
    readonly port: ChainPort,
    private readonly payer: string,
    readonly close: () => Promise<void>,
  ) {}

  static async open(slot_ms: number): Promise<CommittingVenue> {
    const dir = mkdtempSync(join(tmpdir(), 'tacit-bench-commit-'))
    const [settlement_seed, fee_seed] = [1, 2].map(() => crypto.getRandomValues(new Uint8Array(32)))
    const chain = await openEmbeddedChain({ data_dir: join(dir, 'chain'), slot_ms })
    const { announced, authority_seed, quoteEpoch } = simulatedMachine(COMPOSE_HASH)
    const terms = { announced, fee_payer: publicKeyOf(fee_seed!) }
    const program_id = await makeGenesis(chain, { program_path: PROGRAM, ...terms })
    const hash = await openHashing({ dir: join(dir, 'trees'), key: new Uint8Array(32) })
    const seeds = { settlement_seed: settlement_seed!, fee_seed: fee_seed!, authority_seed }
    const quoting = { quoteEpoch: quoteEpoch(settlement_seed!) }
    const port = await openChain({ rpc_urls: [chain.url], program_id, ...seeds, ...quoting, hash, slot_ms })
    const venue = new CommittingVenue(chain, port, encodeBase58(terms.fee_payer), async () => {
      await port.close()
      await hash.close()
      await chain.close()
      rmSync(dir, { recursive: true })
    })
    const outbox = new MemoryOutbox()
    outbox.head = () => venue.head
    await startPort(port, outbox)
    return venue
  }

  /** Milliseconds from the close to its decision, and which one. */
  async commit(): Promise<{ ms: number; outcome: string | undefined }> {
    this.head = { seq: this.head.seq + 1, head: crypto.getRandomValues(new Uint8Array(32)) }
    const started = performance.now()
    const decision = await this.port.commit({ ...this.head, slot: this.port.view().slot }, LIMITS.commit_ms)
    return { ms: performance.now() - started, outcome: decision?.outcome }
  }

  lamports(): bigint {
    return this.chain.machine.accountAt(this.payer, 'processed')!.lamports
  }
}

const figures: Figure[] = []
const at = (sorted: number[], share: number) =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]!

for (const slot_ms of SLOTS_MS) {
  const venue = await CommittingVenue.open(slot_ms)
  const name = `${slot_ms} ms slots`
  const before = venue.lamports()
  const taken: number[] = []
  for (let count = 0; count < closes; count++) taken.push((await venue.commit()).ms)
  const spent = Number(before - venue.lamports()) / closes
  taken.sort((a, b) => a - b)
  for (const [label, share, slots_max] of [
    ['p50', 0.5, 2],
    ['p99', 0.99, 4],
  ] as const) {
    const ms = at(taken, share)
    const slots = `${(ms / slot_ms).toFixed(1)} slots, ${closes} closes`
    const target = `<= ${slots_max * slot_ms}` as const
    figures.push({
      figure: `${name}: close to decision, ${label}`,
      value: ms,
      unit: 'ms',
      beside: slots,
      target,
    })
  }
  const daily = (spent * (86_400_000 / (5 * slot_ms))) / LAMPORTS_PER_SOL
  figures.push({
    figure: `${name}: cost of a commit`,
    value: spent,
    unit: 'lamports',
    beside: `${daily.toFixed(2)} SOL a day at 5 slots a batch`,
  })
  for (const delay of DELAYS) {
    venue.chain.faults.landing_delay_slots = delay
    let voided = 0
    for (let count = 0; count < late; count++) voided += (await venue.commit()).outcome === 'void' ? 1 : 0
    const beside = `${late} closes, commit time ${LIMITS.commit_ms} ms`
    figures.push({
      figure: `${name}: void when landing ${delay} slots late`,
      value: (100 * voided) / late,
      unit: '%',
      beside,
    })
  }
  await venue.close()
}
report('match_latency', figures)
