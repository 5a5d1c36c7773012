/**
 * The whole disk of a venue but its read models under simulated power losses: journal, snapshots and stores, through the
 * real start, replay, snapshot rounds, merges, pruning and retirement. Nothing acknowledged is lost, a snapshot that the journal
 * names included, every row that left the state is found, and no start is rejected.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startOf } from '../../../engine/boot/load_state'
import type { CommandBody } from '../../../engine/commands'
import {
  type Journal,
  JournalDamaged,
  type Reply,
  type Request,
  requestOf,
} from '../../../engine/journal/contract'
import { disk } from '../../../engine/journal/disk'
import { JournalServer } from '../../../engine/journal/journal_server'
import { openJournal } from '../../../engine/journal/open_journal'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { decodeCommand, encodeCommand } from '../../../engine/machine/codec/command_codec'
import { decodeState, encodeState } from '../../../engine/machine/codec/state_codec'
import { execute } from '../../../engine/machine/rules/execute'
import { PAST_KINDS, type PastKind, queuesOf, rowAt } from '../../../engine/machine/state/past'
import { createState, type State } from '../../../engine/machine/state/state'
import { auctionRecord, COMMAND_RECORD, ReplayDisagrees, Replayer } from '../../../engine/sequencer/replayer'
import { makeSnapshot, retirableBefore } from '../../../engine/snapshots/make_snapshot'
import type { JournaledSnapshot } from '../../../engine/snapshots/snapshotting'
import { StoreDamaged } from '../../../engine/stores/part_file'
import { Stores } from '../../../engine/stores/stores'
import { sha256 } from '../../../protocol/sha256'
import { Random } from '../../kit/random'
import { SimulatedDisk } from '../../kit/simulated_disk'
import { cancelling, FIXED_HASH_SEED, key, LOT, World } from '../../kit/venue/machine_world'
import { KEY, SIGNER } from '../journal/folder'

const ROUNDS = Number(process.env['TACIT_POWER_ROUNDS'] ?? 80)
const SEED = Number(process.env['TACIT_POWER_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const SEGMENT_BYTES = 16_384
/** Losses of one venue, before the next begins empty. */
const LIVES = 40
const TRADES = 120

const real = { ...disk }
let root = ''
beforeAll(() => {
  console.log(`TACIT_POWER_SEED=${SEED} TACIT_POWER_ROUNDS=${ROUNDS}`)
  root = mkdtempSync(join(tmpdir(), 'tacit-power-'))
  // The lock of the journal is a real file.
  mkdirSync(join(root, 'journal'))
})
afterAll(() => {
  Object.assign(disk, real)
  rmSync(root, { recursive: true, force: true })
})

/** The commands of a venue that trades, settles and cancels, and all rows that they make. */
function script(): { commands: Uint8Array[]; ever: Record<PastKind, Uint8Array[]> } {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name, { orders_live_max: 1_000 })
  for (let trade = 0; trade < TRADES; trade++) {
    world.place('alice', key('a'))
    world.place('bob', key('b'), { side: 'sell' })
    const order_id = Uint8Array.fromHex(world.place('alice', key('a'), { amount: LOT }))
    world.must({ ...cancelling('alice', key('a'), 'x', BigInt(trade + 1)), order_id })
    world.close()
    world.hashAll()
    world.landBatches()
  }
  const queues = queuesOf(world.state)
  const rowsOf = (kind: PastKind) =>
    Array.from({ length: queues[kind].size }, (_, number) => queues[kind].at(number).slice())
  const ever = Object.fromEntries(PAST_KINDS.map((kind) => [kind, rowsOf(kind)]))
  return { commands: world.journal, ever: ever as Record<PastKind, Uint8Array[]> }
}
const SCRIPT = script()

/** The journal's thread in this one, so that its calls meet the simulated disk; `kill` ends it without a word. */
function thread() {
  const worker = {
    onmessage: (_: { data: Reply }) => {},
    onerror: (_: { message: string }) => {},
    postMessage: (sent: Request | ArrayBuffer) => server.receive(requestOf(sent)),
    terminate: () => {
      worker.onmessage = () => {}
    },
  }
  const server = new JournalServer((data) => void setImmediate(() => worker.onmessage({ data })))
  return { worker: worker as unknown as Worker, kill: () => worker.onerror({ message: 'killed' }) }
}

/** A state with its place in the script and its hash. */
type Place = { next: number; hash: string }
type Running = { journal: Journal; state: State; stores: Stores; newest: JournaledSnapshot | undefined }
const AT = () => ({ dir: join(root, 'stores'), key: KEY })

class Lives {
  losses = 0
  /** Snapshot rounds that ended, and parts that were merged: a campaign without any would show nothing. */
  rounds = 0
  private places = new Map<number, Place>([[0, { next: 0, hash: '' }]])
  private acknowledged = 0
  /** Seq of the newest snapshot whose record is acknowledged. */
  private taken = 0

  constructor(
    private readonly random: Random,
    private readonly simulated: SimulatedDisk,
  ) {}

  async life(): Promise<void> {
    const { simulated } = this
    const kind = this.random.pick(['ends', 'ends', 'ends', 'EIO', 'ENOSPC', 'short'] as const)
    simulated.start({ at: 1 + this.random.below(140), kind })
    const { worker, kill } = thread()
    try {
      await this.run(worker)
    } catch (error) {
      const wrong = [JournalDamaged, StoreDamaged, ReplayDisagrees].some((type) => error instanceof type)
      const failed = error instanceof Error && error.constructor.name.includes('Expect')
      if (!simulated.troubled || wrong || failed || (error as Error).message.startsWith('power:')) throw error
    }
    simulated.end()
    kill()
    await new Promise<void>((resolve) => setImmediate(resolve))
    if (this.random.below(4) === 0) return
    simulated.losePower()
    this.losses++
  }

  private async run(worker: Worker): Promise<void> {
    const dir = join(root, 'journal')
    const journal = await openJournal({ dir, key: KEY, segment_bytes: SEGMENT_BYTES, thread: () => worker })
    const running = await this.start(journal)
    journal.signAs(SIGNER)
    for (let steps = this.random.below(14); steps > 0; steps--) {
      await this.trade(running)
      if (this.random.below(3) === 0) await this.snapshot(running)
    }
  }

  /** As a boot does. */
  private async start(journal: Journal): Promise<Running> {
    const { seq } = journal.head()
    ensure(seq >= this.acknowledged, `${seq} of ${this.acknowledged} acknowledged records`)
    const snapshots = openSnapshotStore({ dir: join(root, 'snapshots'), key: KEY })
    Stores.judgeAside(AT())
    const { start } = await startOf(journal, snapshots, AT(), seq)
    const newest = start?.snapshot
    ensure((newest?.seq ?? 0) >= this.taken, `the start is not of the snapshot at ${this.taken}`)
    const stores =
      newest === undefined ? Stores.empty(AT()) : Stores.open(AT(), newest.seq, newest.catalogue_hash)
    const state =
      start === undefined ? createState(FIXED_HASH_SEED) : decodeState(start.blocks(), FIXED_HASH_SEED)
    const replayer = new Replayer(state, stores)
    for await (const { records } of journal.readBatches((newest?.seq ?? 0) + 1, newest?.head))
      for (const record of records) replayer.apply(record)
    replayer.end(seq)
    if (seq > 0) ensure(hashOf(state) === this.places.get(seq)?.hash, `another state at ${seq}`)
    for (const later of this.places.keys()) if (later > seq) this.places.delete(later)
    this.acknowledged = seq
    this.find(state, stores)
    stores.prune(snapshots.seqs())
    return { journal, state, stores, newest }
  }

  /** Every row is found where it was, in the state or in the stores. */
  private find(state: State, stores: Stores): void {
    for (const kind of PAST_KINDS) {
      const { size } = queuesOf(state)[kind]
      for (let look = Math.min(size, 12); look > 0; look--) {
        const number = this.random.below(size)
        const row = SCRIPT.ever[kind][number]!
        ensure(Buffer.from(rowAt(state, stores, kind, number)).equals(row), `another row ${kind} ${number}`)
        if (number >= stores.covered[kind]) continue
        ensure(stores.indexOf(kind, row) === number, `${kind} ${number} is not found`)
        ensure(
          Buffer.from(stores.at(kind, number)).equals(row),
          `another row ${kind} ${number} in the stores`,
        )
      }
    }
  }

  /** A group of the next commands. */
  private async trade(running: Running): Promise<void> {
    const { journal } = running
    const { next } = this.places.get(journal.head().seq)!
    const bodies = SCRIPT.commands.slice(next, next + 1 + this.random.below(12))
    if (bodies.length > 0) await this.append(running, bodies, next + bodies.length)
  }

  private async append({ journal, state }: Running, bodies: Uint8Array[], next: number): Promise<void> {
    const records = bodies.flatMap((body) => {
      const command = decodeCommand(body)
      const { unix_ms } = command
      const outcome = execute(state, command, {}, 'skipped')
      if (!outcome.ok) throw new Error(`power: refused with ${outcome.code}`)
      return [
        { type: COMMAND_RECORD, unix_ms, body },
        ...outcome.auctions.map((one) => auctionRecord(one, unix_ms)),
      ]
    })
    this.places.set(journal.head().seq + records.length, { next, hash: hashOf(state) })
    this.acknowledged = (await journal.append(records)).seq_last
  }

  /** As `Snapshotting` does. */
  private async snapshot(running: Running): Promise<void> {
    const { journal, stores, newest, state } = running
    const { seq, head } = journal.head()
    if (seq === 0 || seq === newest?.seq) return
    const source = {
      journal_dir: join(root, 'journal'),
      snapshots_dir: join(root, 'snapshots'),
      stores_dir: join(root, 'stores'),
      journal_key: KEY,
      retention_ms: 0,
    }
    const point = { seq, head, newest, unix_ms: Number.MAX_SAFE_INTEGER }
    const { covered, ...hashes } = await makeSnapshot(source, point)
    const before = retirableBefore(source, point)
    stores.follow(seq, hashes.catalogue_hash)
    const taken: CommandBody = { kind: 'snapshot_taken', seq, covered, ...hashes }
    const { next } = this.places.get(seq)!
    await this.append(running, [encodeCommand({ ...taken, unix_ms: state.unix_ms })], next)
    running.newest = { seq, ...hashes }
    this.taken = seq
    stores.prune(newest === undefined ? [seq] : [seq, newest.seq])
    if (before > journal.firstSeq()) await journal.retire(before)
    this.rounds++
  }
}

function hashOf(state: State): string {
  return sha256(encodeState(state)).toHex()
}

function ensure(holds: boolean, what: string): void {
  if (!holds) throw new Error(`power: ${what}`)
}

test(
  `nothing acknowledged and no row is lost in ${ROUNDS} power losses`,
  async () => {
    const random = new Random(SEED)
    let rounds = 0
    for (let losses = 0; losses < ROUNDS; ) {
      const simulated = new SimulatedDisk((count) => random.below(count))
      Object.assign(disk, simulated.disk)
      const lives = new Lives(random, simulated)
      while (lives.losses < Math.min(LIVES, ROUNDS - losses)) await lives.life()
      losses += lives.losses
      rounds += lives.rounds
    }
    console.log(`${rounds} snapshot rounds`)
    expect(rounds).toBeGreaterThan(ROUNDS / 4)
  },
  120_000 + ROUNDS * 500,
)
