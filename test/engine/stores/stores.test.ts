/** Rows that leave the state are found in the stores unchanged, and a changed file is noticed. */
import { afterEach, beforeEach, expect, spyOn, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openNote } from '../../../engine/intake/context'
import { disk } from '../../../engine/journal/disk'
import { LIMITS } from '../../../engine/limits'
import { decodeCommand } from '../../../engine/machine/codec/command_codec'
import { encodeState } from '../../../engine/machine/codec/state_codec'
import { execute } from '../../../engine/machine/rules/execute'
import { ROW_BYTES } from '../../../engine/machine/state/live_orders'
import {
  coverable,
  PAST_KINDS,
  type PastKind,
  queuesOf,
  rowAt,
  spentBatch,
  spentBatches,
} from '../../../engine/machine/state/past'
import { createState } from '../../../engine/machine/state/state'
import { Entries } from '../../../engine/stores/part'
import { BLOCK_BYTES, StoreDamaged, writePart } from '../../../engine/stores/part_file'
import { Stores } from '../../../engine/stores/stores'
import { compareBytes } from '../../../protocol/bytes'
import { cancelling, FIXED_HASH_SEED, key, LOT, refused, seeded, World } from '../../kit/venue/machine_world'

let dir = ''
const at = () => ({ dir, key: new Uint8Array(32).fill(9) })
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'tacit-stores-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

/** Every row that the state ever had. */
type Ever = Record<PastKind, Uint8Array[]>

function traders(): World {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name, { orders_live_max: 1_000 })
  return world
}

/** Two orders that fill each other and settle, and one that is cancelled. */
function trade(world: World, ever: Ever): void {
  world.place('alice', key('a'))
  world.place('bob', key('b'), { side: 'sell' })
  const gone = world.place('alice', key('a'), { amount: LOT })
  const nonce = (world.state.key_list[0]?.cancel_nonce ?? 0n) + 1n
  world.must({
    kind: 'cancel',
    account_id: 'alice',
    trading_key: key('a'),
    order_id: Uint8Array.fromHex(gone),
    cancel_nonce: nonce,
    signature: new Uint8Array(64),
  })
  world.close()
  world.hashAll()
  world.landBatches()
  for (const kind of PAST_KINDS) {
    const queue = queuesOf(world.state)[kind]
    for (let number = ever[kind].length; number < queue.size; number++)
      ever[kind].push(queue.at(number).slice())
  }
}

/** A snapshot's steps: the rows go to the stores, the record drops them from the state. */
function snapshot(world: World, stores: Stores): Uint8Array {
  const covered = coverable(world.state)
  const seq = world.journal.length
  stores.extend(world.state, covered)
  const catalogue_hash = stores.write(seq)
  world.must({ kind: 'snapshot_taken', seq, state_hash: seeded('state'), catalogue_hash, covered })
  // The newest closed orders stay; here none does.
  world.state.finals.rows.dropBefore(covered.finals)
  return catalogue_hash
}

const nothing = (): Ever => ({ leaves: [], nullifiers: [], retired: [], finals: [] })

function played(rounds: number) {
  const world = traders()
  const stores = Stores.empty(at())
  const ever = nothing()
  let hash = new Uint8Array(32) as Uint8Array
  for (let round = 0; round < rounds; round++) {
    for (let more = 0; more <= round % 3; more++) trade(world, ever)
    hash = snapshot(world, stores)
  }
  return { world, stores, ever, hash, seq: world.journal.length - 1 }
}

function expectAll(stores: Stores, ever: Ever): void {
  for (const kind of PAST_KINDS) {
    expect(ever[kind].length).toBeGreaterThan(20)
    for (const [number, row] of ever[kind].entries()) {
      expect(stores.indexOf(kind, row)).toBe(number)
      expect(stores.at(kind, number)).toEqual(row)
    }
    expect(stores.indexOf(kind, seeded('none'))).toBeUndefined()
    expect(() => stores.at(kind, ever[kind].length)).toThrow('no such row')
  }
  expect(stores.indexOf('leaves', ever.nullifiers[0]!)).toBeUndefined()
}

test('every row is found after merges, after another start and in few files; the state holds none of them', () => {
  const { world, stores, ever, hash, seq } = played(41)
  for (const kind of PAST_KINDS)
    expect(queuesOf(world.state)[kind]).toMatchObject({ first: ever[kind].length, size: ever[kind].length })
  expectAll(stores, ever)
  // 41 = 2 * 16 + 2 * 4 + 1: one part for each digit's unit.
  expect(stores['parts'].map(({ row }) => row.level)).toEqual([2, 2, 1, 1, 0])
  stores.prune([seq])
  stores.close()
  expectAll(Stores.open(at(), seq, hash), ever)
  const parts = readdirSync(dir).filter((name) => name.endsWith('.part'))
  expect(parts).toHaveLength(5)
  expect(readdirSync(dir)).toHaveLength(6)
})

test('thousands of rows are found by the value of their hash, and their garbage is collected', () => {
  const world = traders()
  const stores = Stores.empty(at())
  const leaves = Array.from({ length: 33_000 }, (_, leaf) => seeded(`leaf ${leaf}`))
  const collected = spyOn(Bun, 'gc')
  for (const [from, to] of [
    [0, 20_000],
    [20_000, 33_000],
  ] as const) {
    world.must({ kind: 'leaves', first_index: from, leaves: leaves.slice(from, to), slot: 1 })
    stores.extend(world.state, coverable(world.state))
  }
  expect(collected.mock.calls).toEqual([[true], [true]])
  collected.mockRestore()
  for (const [number, leaf] of leaves.entries()) expect(stores.indexOf('leaves', leaf)).toBe(number)
  for (let none = 0; none < 1_000; none++)
    expect(stores.indexOf('leaves', seeded(`none ${none}`))).toBeUndefined()
})

test('the newest of equal keys is found, also where they lie on both sides of a border of blocks', () => {
  const { state } = traders()
  const stores = Stores.empty(at())
  const ids = Array.from({ length: 3_000 }, (_, one) => seeded(`id ${one}`).slice(0, 16))
  // Four parts of the same ids become one.
  for (let part = 1; part <= 4; part++) {
    for (const one of ids) {
      const row = new Uint8Array(ROW_BYTES)
      row.set(one)
      // Neither its body nor its retention ends.
      new Float64Array(row.buffer, 80, 3).fill(Number.MAX_SAFE_INTEGER)
      state.finals.rows.append(row)
    }
    stores.extend(state, { ...coverable(state), finals: state.finals.rows.size })
    for (const [place, one] of ids.entries())
      expect(stores.indexOf('finals', one)).toBe((part - 1) * ids.length + place)
  }
  expect(stores['parts']).toHaveLength(1)
})

test('entries whose hashes begin alike are in the order of their bytes', () => {
  const begins = [
    [1, 2, 3, 4, 0, 2],
    [1, 2, 3, 4, 0, 1],
    [1, 2, 3, 4, 1, 0],
    [1, 2, 3, 3, 255, 255],
  ]
  const hashes = begins.map((bytes) => Uint8Array.from({ length: 16 }, (_, place) => bytes[place] ?? 0))
  const entries = new Entries(hashes.length)
  for (const [number, hash] of hashes.entries()) entries.add(hash, 'leaves', number)
  const sorted = Array.from(entries.sorted(), (entry) => entry.slice(0, 16))
  expect(sorted).toEqual(hashes.toSorted(compareBytes))
})

test('parts of several blocks merge whole, and are read also where the disk gives few bytes at a time', () => {
  const world = traders()
  const stores = Stores.empty(at())
  const leaves = Array.from({ length: 4 * 300 }, (_, leaf) => seeded(`leaf ${leaf}`))
  const { read } = disk
  disk.read = (fd, into, from, length, place) => read(fd, into, from, Math.min(length, 1_000), place)
  try {
    for (let part = 0; part < LIMITS.store_parts_per_level; part++) {
      const run = { first_index: 300 * part, leaves: leaves.slice(300 * part, 300 * part + 300) }
      world.must({ kind: 'leaves', ...run, slot: 1 })
      stores.extend(world.state, coverable(world.state))
    }
    for (const [number, leaf] of leaves.entries()) {
      expect(stores.indexOf('leaves', leaf)).toBe(number)
      expect(stores.at('leaves', number)).toEqual(leaf)
    }
  } finally {
    disk.read = read
  }
})

test('a replay without stores gives the same state, and one that extends them the same rows', () => {
  const { world, ever } = played(9)
  const bare = createState(FIXED_HASH_SEED)
  const again = createState(FIXED_HASH_SEED)
  rmSync(dir, { recursive: true })
  const stores = Stores.empty(at())
  for (const bytes of world.journal) {
    const command = decodeCommand(bytes)
    if (command.kind === 'snapshot_taken') stores.extend(again, command.covered)
    for (const state of [bare, again]) expect(execute(state, command, {}).ok).toBe(true)
  }
  expect(encodeState(again)).toEqual(encodeState(bare))
  world.state.finals.rows.dropBefore(0)
  bare.finals.rows.dropBefore(bare.finals.rows.size)
  expect(encodeState(bare)).toEqual(encodeState(world.state))
  expectAll(stores, ever)
})

test('a command about rows that only the stores have is refused as if the state had them', () => {
  const world = traders()
  const stores = Stores.empty(at())
  const ever = nothing()
  const bid = world.placing('alice', key('a'), { nonce: 1n })
  world.must(bid)
  world.place('bob', key('b'), { side: 'sell' })
  world.close()
  world.hashAll()
  world.landBatches()
  trade(world, ever)
  const env = { past: stores }
  const again = { ...bid, nonce: 1_000n, order_id: seeded('another').slice(0, 16) }
  const results = () => [
    refused(world, bid, env),
    refused(world, { ...bid, digest: seeded('other') }, env),
    refused(world, { ...cancelling('alice', key('a'), 'x', 99n), order_id: bid.order_id }, env),
    refused(world, again, env),
    refused(world, { ...again, opening: undefined }, env),
    refused(world, { ...again, account_id: 'bob', trading_key: key('b') }, env),
  ]
  const before = results()
  expect(before.map(({ code }) => code)).toEqual([
    'order_exists',
    'order_id_taken',
    'order_final',
    'note_spent',
    'note_spent',
    'note_unknown',
  ])
  snapshot(world, stores)
  expect(results()).toEqual(before)
  // Without the stores the state says something else, so the rows did leave it.
  const alone = { ...again, opening: { ...bid.opening!, leaf: bid.opening!.leaf } }
  expect(refused(world, bid).code).toBe('nonce_stale')
  expect(world.run(alone).ok).toBe(true)
})

test('an opening names the leaf that only the stores have, and no other', () => {
  const { world, stores } = played(3)
  const known = { state: world.state, past: stores }
  const leaf = 2
  const wanted = rowAt(world.state, stores, 'leaves', leaf).slice()
  const opening = { mint: seeded('m'), amount: 1n, blinding: new Uint8Array(32), leaf_index: undefined }
  expect(openNote(known, wanted, opening, key('c'))?.leaf).toBe(leaf)
  expect(openNote(known, wanted, { ...opening, leaf_index: leaf }, key('c'))?.leaf).toBe(leaf)
  expect(openNote(known, wanted, { ...opening, leaf_index: leaf + 1 }, key('c'))).toBeUndefined()
  expect(openNote(known, seeded('none'), opening, key('c'))).toBeUndefined()
})

test('batches of the spent log come whole from stores and state', () => {
  const { world, stores, ever } = played(5)
  trade(world, ever)
  const batches = [...spentBatches(world.state, stores, 1)]
  expect(batches.map(({ batch_id }) => batch_id)).toEqual(
    Array.from({ length: world.state.settlement.last_hashed }, (_, at) => at + 1),
  )
  expect(batches.flatMap(({ nullifiers }) => nullifiers)).toEqual(
    ever.nullifiers.map((row) => row.slice(0, 32)),
  )
  for (const batch of [batches[0]!, batches[3]!, batches.at(-1)!]) {
    expect(spentBatch(world.state, stores, batch.nullifiers[0]!)).toEqual(batch)
    expect([...spentBatches(world.state, stores, batch.batch_id)][0]).toEqual(batch)
  }
  expect(spentBatch(world.state, stores, seeded('none'))).toBeUndefined()
})

test('closed orders leave the stores with their retention, and nothing else does', () => {
  const world = traders()
  const stores = Stores.empty(at())
  const ever = nothing()
  for (let round = 0; round < LIMITS.store_parts_per_level; round++) {
    if (round === 2) {
      world.unix_ms += 2 * 86_400_000
      world.must({ kind: 'slot', reopens_slot: 0, slot: world.state.slot + 1_000 })
    }
    trade(world, ever)
    snapshot(world, stores)
  }
  const half = ever.finals.length / 2
  for (const [number, row] of ever.finals.entries())
    expect(stores.indexOf('finals', row)).toBe(number < half ? undefined : number)
  for (const [number, row] of ever.nullifiers.entries())
    expect(stores.indexOf('nullifiers', row)).toBe(number)
})

test('a cut, a missing, a foreign and an old file are noticed at the start', () => {
  const { world, stores, ever, hash, seq } = played(6)
  const older = join(dir, '..', `older-${Date.now()}`)
  cpSync(dir, older, { recursive: true })
  trade(world, ever)
  const next_hash = snapshot(world, stores)
  const next = world.journal.length - 1
  stores.close()
  const open = () => Stores.open(at(), next, next_hash)
  open().close()
  const sound = join(dir, '..', `sound-${Date.now()}`)
  cpSync(dir, sound, { recursive: true })
  const catalogue = (of: number) => join(dir, `${String(of).padStart(16, '0')}.catalogue`)
  const part = () => join(dir, readdirSync(dir).find((name) => name.endsWith('.part'))!)
  const faults: [string, () => void][] = [
    ['a cut part', () => truncateSync(part(), statSync(part()).size - BLOCK_BYTES)],
    ['a longer part', () => truncateSync(part(), statSync(part()).size + 1)],
    ['a missing part', () => rmSync(part())],
    ['a missing catalogue', () => rmSync(catalogue(next))],
    ['the catalogue of an older snapshot', () => cpSync(catalogue(seq), catalogue(next))],
    ['a catalogue under another key', () => writeFileSync(catalogue(next), new Uint8Array(200))],
  ]
  for (const [name, fault] of faults) {
    for (const file of readdirSync(sound)) cpSync(join(sound, file), join(dir, file))
    // The first part by name may be one that a merge made unneeded.
    const again = open()
    again.prune([next])
    again.close()
    if (name.startsWith('the catalogue'))
      cpSync(join(older, readdirSync(older).find((file) => file.includes(String(seq)))!), catalogue(seq))
    fault()
    expect(open, name).toThrow(StoreDamaged)
  }
  expect(() => Stores.open(at(), seq, hash)).toThrow(StoreDamaged)
  for (const folder of [older, sound]) rmSync(folder, { recursive: true })
})

test('swapped, older and changed blocks are refused when they are read, and the start after that notices', () => {
  const { ever, hash, seq, stores } = played(2)
  stores.close()
  const name = readdirSync(dir).find((one) => one.endsWith('.part'))!
  const file = join(dir, name)
  const sound = readFileSync(file)
  const changes = [
    (bytes: Uint8Array) => bytes.copyWithin(0, BLOCK_BYTES, 2 * BLOCK_BYTES),
    (bytes: Uint8Array) => bytes.fill(0, 0, BLOCK_BYTES),
    (bytes: Uint8Array) => bytes.fill(bytes[5]! ^ 1, 5, 6),
  ]
  for (const change of changes) {
    const bytes = new Uint8Array(sound)
    change(bytes)
    writeFileSync(file, bytes)
    const opened = Stores.open(at(), seq, hash)
    // The second time the file is set aside already.
    for (let time = 0; time < 2; time++)
      expect(() => ever.leaves.map((_, number) => opened.at('leaves', number))).toThrow(StoreDamaged)
    opened.close()
    expect(() => Stores.open(at(), seq, hash)).toThrow(StoreDamaged)
    writeFileSync(file, sound)
  }
  Stores.open(at(), seq, hash).close()
})

test('a read that the disk fails once sets no file aside, and one that it fails longer only until a start', () => {
  const { stores, ever, hash, seq } = played(6)
  stores.prune([seq])
  stores.close()
  const files = readdirSync(dir)
  const { read } = disk
  let left = 0
  disk.read = (...call) => {
    if (left-- > 0) throw Object.assign(new Error('EIO'), { code: 'EIO' })
    return read(...call)
  }
  try {
    const opened = Stores.open(at(), seq, hash)
    left = 1
    expect(opened.at('leaves', 0)).toEqual(ever.leaves[0]!)
    expect(readdirSync(dir)).toEqual(files)
    left = 1_000
    expect(() => opened.at('nullifiers', 0)).toThrow(StoreDamaged)
    opened.close()
    // Nothing is deleted while the disk does not name the needed files.
    const empty = Stores.empty(at())
    expect(() => empty.prune([seq])).toThrow('EIO')
    expect(() => Stores.judgeAside(at())).toThrow('EIO')
    const unread = Stores.checks(at(), [seq])
    expect(unread.map(({ name }) => name)).toEqual([`${String(seq).padStart(16, '0')}.catalogue`])
    expect(() => unread[0]!.verify()).toThrow(StoreDamaged)
    expect(readdirSync(dir)).toHaveLength(files.length)
    left = 0
    expect(Stores.areWhole(at(), { seq, catalogue_hash: hash })).toBe(false)
    Stores.judgeAside(at())
    expect(readdirSync(dir)).toEqual(files)
    expectAll(Stores.open(at(), seq, hash), ever)
    const aside = join(dir, files.find((name) => name.endsWith('.part'))!)
    const bytes = readFileSync(aside)
    // A bit is flipped: the last byte of a sealed file may be zero already.
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(`${aside}.damaged`, bytes)
    rmSync(aside)
    Stores.judgeAside(at())
    expect(existsSync(aside)).toBe(false)
  } finally {
    disk.read = read
  }
})

test('stores that follow another catalogue hold open the files of that one alone', () => {
  const { stores, hash, seq } = played(6)
  const parts = readdirSync(dir).filter((name) => name.endsWith('.part'))
  const open = () =>
    readdirSync('/proc/self/fd').filter((fd) => {
      const path = `/proc/self/fd/${fd}`
      return existsSync(path) && readlinkSync(path).startsWith(dir)
    }).length
  const before = open()
  expect(before).toBeGreaterThan(0)
  expect(before).toBeLessThan(parts.length)
  for (let time = 0; time < 3; time++) stores.follow(seq, hash)
  for (const { verify } of Stores.checks(at(), [seq])) verify()
  expect(open()).toBe(before)
  stores.close()
  expect(open()).toBe(0)
})

test('a part whose writing fails leaves no file', () => {
  function* failing() {
    yield seeded('row')
    throw new Error('ENOSPC')
  }
  const part = { name: 'a.part', key: seeded('key') }
  expect(() => writePart(dir, part, [{ width: 32, rows: failing() }])).toThrow('ENOSPC')
  expect(readdirSync(dir)).toEqual([])
})

test('a part that is written and cannot be opened goes with its snapshot', () => {
  const { world, ever, hash, seq } = played(LIMITS.store_parts_per_level - 1)
  const before = readdirSync(dir)
  const stores = Stores.open(at(), seq, hash)
  trade(world, ever)
  const { openSync } = disk
  let opened = 0
  disk.openSync = (path, flags) => {
    if (++opened === 1) return openSync(path, flags)
    throw new Error('EIO of the merged part')
  }
  expect(() => stores.extend(world.state, coverable(world.state))).toThrow('EIO')
  disk.openSync = openSync
  stores.discard()
  expect(readdirSync(dir)).toEqual(before)
})

test('no more blocks than the bound stay in memory, the one used last the longest', () => {
  const { stores, ever } = played(41)
  const spare = LIMITS.store_blocks_max
  Object.assign(LIMITS, { store_blocks_max: 2 })
  try {
    // The first rows of three kinds lie in three blocks.
    const first = (kind: PastKind) => stores.at(kind, 0)
    for (const kind of ['leaves', 'nullifiers', 'leaves', 'retired'] as const) first(kind)
    for (const file of readdirSync(dir)) writeFileSync(join(dir, file), new Uint8Array(0))
    for (const kind of ['leaves', 'retired'] as const) expect(first(kind)).toEqual(ever[kind][0]!)
    expect(() => first('nullifiers')).toThrow(StoreDamaged)
  } finally {
    Object.assign(LIMITS, { store_blocks_max: spare })
  }
})

test('a scrub reads every block in turn: one that is damaged ends the process, and its file is set aside', () => {
  const { stores, hash, seq } = played(41)
  stores.prune([seq])
  const ended: Error[] = []
  stores.onDamage = (error) => ended.push(error)
  stores.scrub()
  expect(Stores.areWhole(at(), { seq, catalogue_hash: hash }, 'blocks')).toBe(true)
  const file = join(dir, readdirSync(dir).find((name) => name.endsWith('.part'))!)
  const bytes = readFileSync(file)
  bytes[bytes.length - 1]! ^= 1
  writeFileSync(file, bytes)
  const files = readdirSync(dir)
  expect(Stores.areWhole(at(), { seq, catalogue_hash: hash })).toBe(true)
  expect(Stores.areWhole(at(), { seq, catalogue_hash: hash }, 'blocks')).toBe(false)
  expect(readdirSync(dir)).toEqual(files)
  expect(() => stores.scrub()).toThrow(StoreDamaged)
  expect(ended).toHaveLength(1)
  expect(Stores.areWhole(at(), { seq, catalogue_hash: hash })).toBe(false)
})
