/**
 * A journal on a simulated disk that loses power at random calls, in lives that also end by a kill or by an I/O error:
 * nothing acknowledged or recovered is lost, nothing else appears, and no journal is rejected.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NewRecord, Reply, Request } from '../../../engine/journal/contract'
import { disk } from '../../../engine/journal/disk'
import { encodeGroup, readRecords } from '../../../engine/journal/frame'
import { JournalServer } from '../../../engine/journal/journal_server'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { Random } from '../../kit/random'
import { SimulatedDisk } from '../../kit/simulated_disk'
import { KEY, SIGNER } from './folder'

const ROUNDS = Number(process.env['TACIT_POWER_ROUNDS'] ?? 300)
const SEED = Number(process.env['TACIT_POWER_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
/** Small, so that most lives switch segments. */
const SEGMENT_BYTES = 8_192
/** Losses of one journal, before the next begins empty. */
const LIVES = 40

const real = { ...disk }
afterAll(() => void Object.assign(disk, real))
beforeAll(() => console.log(`TACIT_POWER_SEED=${SEED} TACIT_POWER_ROUNDS=${ROUNDS}`))

const turns = async (count: number) => {
  for (let i = 0; i < count; i++) await new Promise<void>((resolve) => setImmediate(resolve))
}

/** One process: requests in, replies out. */
function process_() {
  const replies: Reply[] = []
  const server = new JournalServer((reply) => void replies.push(reply))
  const of = <O extends Reply['op']>(op: O) =>
    replies.filter((reply): reply is Extract<Reply, { op: O }> => reply.op === op)
  return { serve: (request: Request) => server.receive(request), replies, of }
}
type Process = ReturnType<typeof process_>

class Journals {
  /** Bodies by seq, as long as they are acknowledged, recovered or may be on the disk. */
  private bodies = new Map<number, Uint8Array>()
  private acknowledged = 0
  private retired = 0
  losses = 0

  constructor(
    private readonly random: Random,
    private readonly simulated: SimulatedDisk,
  ) {}

  /** A life that ends at a random call, if it makes as many. */
  async life(): Promise<void> {
    const { simulated } = this
    const kind = this.random.pick(['ends', 'ends', 'ends', 'EIO', 'short'] as const)
    simulated.start({ at: 1 + this.random.below(60), kind })
    const process = process_()
    if (this.opens(process, kind)) {
      if (this.reads(process)) await this.trade(process)
    }
    await turns(4)
    simulated.end()
    await turns(4)
    this.acknowledge(process)
    // Without a power loss the next process reads the cache.
    if (this.random.below(3) === 0) return
    simulated.losePower()
    this.losses++
  }

  private opens(process: Process, kind: string): boolean {
    process.serve({ op: 'open', dir: '/journal', key: KEY, segment_bytes: SEGMENT_BYTES })
    const [refused] = process.of('refused')
    if (refused === undefined) return true
    if (refused.failure.damage !== undefined || kind === 'short') throw new Error(refused.failure.message)
    return false
  }

  /** The opening found the acknowledged records and a prefix of the rest; false when the process ended meanwhile. */
  private reads(process: Process): boolean {
    const { seq, first_seq } = process.of('opened')[0]!
    expect(seq).toBeGreaterThanOrEqual(this.acknowledged)
    expect(first_seq).toBeLessThanOrEqual(this.retired + 1)
    this.acknowledged = seq
    this.pushed = seq
    this.ends = []
    process.serve({ op: 'read', reader: 1, from_seq: first_seq, expected: [] })
    const records: { seq: number; body: Uint8Array }[] = []
    for (let last = seq === 0; !last; ) {
      process.serve({ op: 'read_next', reader: 1 })
      const [failed] = process.of('read_failed')
      if (failed?.failure.damage !== undefined) throw new Error(failed.failure.message)
      if (failed !== undefined) return false
      const chunk = process.of('chunk').at(-1)!
      readRecords(chunk.groups, first_seq, records as never)
      last = chunk.last
    }
    expect(records.length).toBe(seq - first_seq + 1)
    for (const { seq: at, body } of records) expect(Buffer.from(body).equals(this.bodies.get(at)!)).toBe(true)
    for (const at of this.bodies.keys()) if (at > seq || at < first_seq) this.bodies.delete(at)
    return true
  }

  /** Newest seq pushed in this life, and where its groups end. */
  private pushed = 0
  private ends: number[] = []

  private async trade(process: Process): Promise<void> {
    process.serve({ op: 'sign_as', signer: SIGNER })
    for (let step = this.random.below(14); step > 0; step--) {
      for (let groups = 1 + this.random.below(3); groups > 0; groups--) this.append(process)
      await turns(this.random.below(4))
      if (this.random.below(6) === 0) this.retire(process)
    }
    if (this.random.below(4) === 0) process.serve({ op: 'close' })
  }

  private append(process: Process): void {
    const records: NewRecord[] = Array.from({ length: 1 + this.random.below(3) }, () => {
      const body = new Uint8Array(1 + this.random.below(900)).map(() => this.random.below(256))
      return { type: 1, unix_ms: 1, body }
    })
    const group = encodeGroup(records, this.pushed + 1, new Uint8Array(32))
    for (const { body } of records) this.bodies.set(++this.pushed, body)
    this.ends.push(this.pushed)
    process.serve({ op: 'append', group })
  }

  private retire(process: Process): void {
    const before_seq = Math.max(1, this.acknowledged - 20)
    this.retired = Math.max(this.retired, before_seq - 1)
    process.serve({ op: 'retire', before_seq })
  }

  private acknowledge(process: Process): void {
    const groups = process.of('durable').reduce((sum, { proofs }) => sum + proofs.length / 96, 0)
    if (groups > 0) this.acknowledged = this.ends[groups - 1]!
  }
}

test(
  `nothing acknowledged is lost in ${ROUNDS} power losses`,
  async () => {
    const random = new Random(SEED)
    for (let losses = 0; losses < ROUNDS; ) {
      const simulated = new SimulatedDisk((count) => random.below(count))
      Object.assign(disk, simulated.disk)
      const journals = new Journals(random, simulated)
      while (journals.losses < Math.min(LIVES, ROUNDS - losses)) await journals.life()
      losses += journals.losses
    }
  },
  ROUNDS * 500,
)

test('a published snapshot survives a power loss, and the one before it until then', async () => {
  const random = new Random(SEED)
  const dir = mkdtempSync(join(tmpdir(), 'tacit-power-'))
  try {
    for (let round = 0; round < 60; round++) {
      const simulated = new SimulatedDisk((count) => random.below(count))
      Object.assign(disk, simulated.disk)
      const hashes = new Map<number, Uint8Array>()
      let published = 0
      try {
        simulated.start({ at: random.between(8, 30), kind: random.pick(['ends', 'short', 'EIO'] as const) })
        const store = openSnapshotStore({ dir, key: KEY })
        for (let seq = 1; seq < 6; seq++) {
          const point = { seq, head: new Uint8Array(32).fill(seq) }
          hashes.set(seq, await store.writeSnapshot(point, () => [new Uint8Array(3_000).fill(seq)], seq - 1))
          published = seq
        }
      } catch {
        // The process ended, or its disk failed.
      }
      simulated.losePower()
      simulated.start()
      const found = await openSnapshotStore({ dir, key: KEY }).newestValid(async ({ seq }) => hashes.get(seq))
      expect(found.snapshot?.seq ?? 0).toBe(published)
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
})
