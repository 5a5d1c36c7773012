/** Settles orders in the state alone, as a child process, and boots from the files that this leaves. */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command, CommandBody, NoteFact } from '../../engine/commands'
import { appendLeaves, restoreSpent, TreeFiles } from '../../engine/hashing/tree_files'
import { openSnapshotStore } from '../../engine/journal/snapshot_store'
import { LIMITS } from '../../engine/limits'
import { decodeState, encodeBlocks } from '../../engine/machine/codec/state_codec'
import { dueInstruments } from '../../engine/machine/rules/decide_batch'
import { execute } from '../../engine/machine/rules/execute'
import { nextHashJob } from '../../engine/machine/settlement/payload'
import { coverable } from '../../engine/machine/state/past'
import { createState, type State } from '../../engine/machine/state/state'
import type { HashJob, HashResult } from '../../engine/ports'
import { Stores } from '../../engine/stores/stores'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { installPoseidon } from '../../protocol/notes/poseidon'
import { answerQuestions } from '../kit/child_process'
import {
  accountOf,
  benchConfig,
  elementNamed,
  LOT,
  MINTS,
  named,
  REFERENCE_TICKS,
  SYMBOL,
  TICK,
} from './bench_config'

/** Each fills the other's order in each round and then holds the other mint: the live set stays as it is. */
const KEYS = 2_048
const SEED = [1, 2] as const
/** Orders between two snapshots, as in operation. */
const SNAPSHOT_ORDERS = 65_536
const QUOTE_AMOUNT = 100_000n
const KEY = named('journal')

type Meta = { seq: number; state_hash: string; catalogue_hash: string }
/** `disk_most` is the most per settled order after any snapshot: parts that it merged stay until the next one. */
export type Settled = { live_notes: number; leaves: number; disk_bytes: number; disk_most: number }
/** `cpu_ms` is processor time, steadier than `ms` where others share the machine. */
export type Booted = {
  ms: number
  cpu_ms: number
  rss_bytes: number
  live_notes: number
  queued_rows: number
}

const native = loadNativePoseidon()
if (native !== undefined) installPoseidon(native)

const KEYS_BYTES = Array.from({ length: KEYS }, (_, at) => named(`settled key ${at}`))

class Settling {
  readonly state: State = createState(SEED, LIMITS.orders_live_max)
  private readonly stores: Stores
  private readonly trees: TreeFiles
  private readonly held = Array.from({ length: KEYS }, (_, at) => elementNamed(`deposit ${at}`))
  private readonly owners = new Map(KEYS_BYTES.map((key, at) => [key.toHex(), at]))
  private unix_ms = 1_700_000_000_000
  private seq = 0
  private kept: number | undefined

  constructor(private readonly dir: string) {
    mkdirSync(join(dir, 'hashing'), { recursive: true })
    this.stores = Stores.empty({ dir: join(dir, 'stores'), key: KEY })
    this.trees = new TreeFiles(join(dir, 'hashing'), KEY)
    const { instruments, mints, fee_key, fee_anchor } = benchConfig(dir)
    const terms = { fee_key, fee_anchor, order_life_slots_max: 432_000, settlement_parts_max: 28 }
    const free = instruments.map((one) => ({ ...one, fee_bps: 0 }))
    const settings = { instruments: free, mints, ...terms, retention_days: 30, generation: 0 }
    this.run({ kind: 'configure', settings })
    this.run({ kind: 'slot', slot: 1_000, reopens_slot: 0 })
    for (let at = 0; at < 8; at++) {
      const rates = { rate_capacity: 1_000, rate_refill_per_s: 1_000 }
      const limits = { ...rates, orders_live_max: 10_000, keys_max: 10_000 }
      const account = { account_id: accountOf(at), account_key: elementNamed(`account ${at}`) }
      const signature = new Uint8Array(64)
      this.run({ kind: 'account_record', ...account, version: 1, state: 'active', limits, signature })
    }
    this.land(this.held)
  }

  private run(body: CommandBody): void {
    this.unix_ms += 1
    this.seq++
    const outcome = execute(
      this.state,
      { ...body, unix_ms: this.unix_ms } as Command,
      { past: this.stores },
      'skipped',
    )
    if (!outcome.ok) throw new Error(`${body.kind} refused: ${outcome.code}`)
  }

  private land(leaves: readonly Uint8Array[]): void {
    const first_index = this.state.leaves.size
    appendLeaves(this.trees.trees, first_index, [...leaves])
    this.run({ kind: 'leaves', first_index, leaves: [...leaves], slot: this.state.slot })
  }

  /** All keys trade once and everything settles. */
  round(round: number): void {
    const { state } = this
    for (let at = 0; at < KEYS; at++) {
      const buys = (at + round) % 2 === 0
      const opening = round === 0 ? this.openingOf(at, buys) : undefined
      this.run({
        kind: 'place',
        account_id: accountOf(at),
        origin: undefined,
        order_id: named(`settled ${round} ${at}`, 16),
        trading_key: KEYS_BYTES[at]!,
        symbol: SYMBOL,
        side: buys ? 'buy' : 'sell',
        type: 'limit',
        amount: LOT,
        price_limit: BigInt(REFERENCE_TICKS) * TICK,
        min_fill: 0n,
        expiry_slot: state.slot + 1_000,
        nonce: BigInt(round + 1),
        collateral_commitment: this.held[at]!,
        anchors: [this.held[at]!],
        signature: new Uint8Array(64),
        opening,
        digest: named(`digest ${round} ${at}`),
      })
    }
    this.run({ kind: 'slot', slot: state.slot + 1, reopens_slot: 0 })
    const due = dueInstruments(state).map((one) => ({ ...one, seed: named('seed') }))
    const seq = this.seq + 1
    const decided = { slot: state.slot, epoch: 0, commit_seq: seq, outcome: 'committed' as const }
    this.run({ kind: 'closed', seq, capacity: 28, due })
    this.run({ kind: 'decided', seq, ...decided })
    for (let job = nextHashJob(state); job !== undefined; job = nextHashJob(state)) this.settle(job)
  }

  private openingOf(at: number, buys: boolean): NoteFact {
    const { mint } = MINTS[buys ? 1 : 0]!
    const commitment = this.held[at]!
    const amount = buys ? QUOTE_AMOUNT : LOT
    return {
      mint,
      amount,
      blinding: commitment,
      leaf_index: at,
      leaf: at,
      commitment,
      nullifier: elementNamed(`nullifier ${at}`),
    }
  }

  private settle(job: HashJob): void {
    const { batch_id } = job
    const outputs = job.outputs.map(({ owner }, at) => {
      const commitment = elementNamed(`output ${batch_id} ${at}`)
      this.held[this.owners.get(owner.toHex())!] = commitment
      return { blinding: commitment, commitment, memo: new Uint8Array(16) }
    })
    const nullifiers = job.inputs.map(
      ({ nullifier }, at) => nullifier ?? elementNamed(`spent ${batch_id} ${at}`),
    )
    const result: HashResult = { nullifiers, outputs, refund_inners: [], refund_blindings: [] }
    this.run({ kind: 'hashed', batch_id, result })
    restoreSpent(this.trees.trees, [{ batch_id, nullifiers }])
    for (const stage of ['submitted', 'confirmed', 'finalized'] as const)
      this.run({
        kind: 'batch_stage',
        stage: { batch_id, stage, signature: named('s', 64), slot: this.state.slot },
      })
    this.land(outputs.map(({ commitment }) => commitment))
  }

  async snapshot(): Promise<void> {
    const covered = coverable(this.state)
    this.stores.extend(this.state, covered)
    const { seq } = this
    const catalogue_hash = this.stores.write(seq)
    const store = openSnapshotStore({ dir: join(this.dir, 'snapshots'), key: KEY })
    const point = { seq, head: new Uint8Array(32) }
    const state_hash = await store.writeSnapshot(point, () => encodeBlocks(this.state), this.kept)
    this.run({ kind: 'snapshot_taken', seq, state_hash, catalogue_hash, covered })
    const kept = this.kept === undefined ? [seq] : [seq, this.kept]
    await store.prune(kept)
    this.stores.prune(kept)
    this.kept = seq
    this.trees.save()
    const meta: Meta = { seq, state_hash: state_hash.toHex(), catalogue_hash: catalogue_hash.toHex() }
    writeFileSync(join(this.dir, 'meta.json'), JSON.stringify(meta))
  }
}

function bytesOf(dir: string): number {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile())
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
}

answerQuestions({
  async settle({ dir, orders }: { dir: string; orders: number }): Promise<Settled> {
    const settling = new Settling(dir)
    const diskBytes = () => bytesOf(join(dir, 'stores')) + bytesOf(join(dir, 'hashing'))
    let next = SNAPSHOT_ORDERS
    let disk_most = 0
    for (let round = 0; round * KEYS < orders; round++) {
      settling.round(round)
      if ((round + 1) * KEYS < next) continue
      await settling.snapshot()
      disk_most = Math.max(disk_most, diskBytes() / ((round + 1) * KEYS))
      next += SNAPSHOT_ORDERS
    }
    // The second one has no rows that the stores lack, and deletes the rows that the first one merged.
    for (let more = 0; more < 2; more++) await settling.snapshot()
    const { notes, leaves } = settling.state
    return { live_notes: notes.size, leaves: leaves.size, disk_bytes: diskBytes(), disk_most }
  },
  /** A boot's load, then lookups and proofs that fill the caches. */
  async boot({ dir }: { dir: string }): Promise<Booted> {
    const [started, before] = [performance.now(), process.cpuUsage()]
    const { seq, state_hash, catalogue_hash } = JSON.parse(
      readFileSync(join(dir, 'meta.json'), 'utf8'),
    ) as Meta
    const stores = Stores.open(
      { dir: join(dir, 'stores'), key: KEY },
      seq,
      Uint8Array.fromHex(catalogue_hash),
    )
    const store = openSnapshotStore({ dir: join(dir, 'snapshots'), key: KEY })
    const { snapshot } = await store.newestValid(async () => Uint8Array.fromHex(state_hash))
    const state = decodeState(snapshot!.blocks(), SEED, LIMITS.orders_live_max)
    const { trees } = new TreeFiles(join(dir, 'hashing'), KEY)
    const ms = performance.now() - started
    const { user, system } = process.cpuUsage(before)
    const cpu_ms = (user + system) / 1_000
    for (let look = 0; look < 3 * LIMITS.store_blocks_max; look++) {
      stores.indexOf('nullifiers', named(`look ${look}`))
      stores.at('leaves', (look * 7_919) % stores.covered.leaves)
      if (look % 16 === 0) trees.notes.siblings((look * 7_919) % trees.notes.leaf_count)
    }
    await Bun.sleep(3_000)
    Bun.gc(true)
    const { leaves, nullifiers, retired, finals, notes } = state
    const queued_rows = [leaves, nullifiers, retired, finals.rows].reduce(
      (sum, one) => sum + one.size - one.first,
      0,
    )
    return { ms, cpu_ms, rss_bytes: process.memoryUsage.rss(), live_notes: notes.size, queued_rows }
  },
})
