/**
 * Keeps the nodes of both trees in files, one for each level, so that memory and boot do not grow with the trees. All of it is
 * derived: nodes that do not authenticate are computed again from the leaves.
 */

import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { compareBytes, concatBytes, equalBytes, utf8 } from '../../protocol/bytes'
import { blob, fixed, list, struct, text, uint } from '../../protocol/codec'
import {
  type LevelParts,
  MerkleTree,
  NODE_BYTES,
  PART_BYTES,
  SpentLog,
  spentLogLeaf,
  TreeLevel,
} from '../../protocol/notes/merkle_tree'
import {
  encodeMemo,
  noteInner,
  nullifierOf,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import { isFull, readWhole, writeWhole } from '../journal/disk'
import { LIMITS } from '../limits'
import type { HashJob, HashOutput, HashRefund, HashResult } from '../ports'

/** The last part of each level, which still changes, and the number of its nodes. */
const EDGE = struct({ levels: list(struct({ tree: text, height: uint, nodes: uint, last: blob })) })
const SEALED = struct({ tag: fixed(32), edge: blob })
const EDGE_NAME = 'trees.edge'
const TAG_BYTES = 32
const RECORD_BYTES = PART_BYTES + TAG_BYTES
const PART_NODES = PART_BYTES / NODE_BYTES

/** A file of the trees has other bytes than were written. */
export class TreesDamaged extends Error {
  override readonly name = 'TreesDamaged'
}

/** Changes that invalidate the saved edge. */
type Spoiled = { reopened: () => void; damaged: () => void }

/**
 * The parts of one level: the last one in memory, the others in a file, each behind a tag that covers its place. A full part
 * that a full disk does not take stays in memory until it does: a tree is never changed by half.
 */
class FileParts implements LevelParts {
  private readonly fd: number
  private readonly cached = new Map<number, Uint8Array>()
  /** In ascending order; few, as a full disk rejects orders. */
  private readonly unwritten = new Map<number, Uint8Array>()

  constructor(
    path: string,
    private readonly tagOf: (part: number, bytes: Uint8Array) => Uint8Array,
    private last_part: number,
    private last: Uint8Array,
    private readonly spoiled: Spoiled,
  ) {
    this.fd = openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  }

  /** Whether the file is long enough for the parts before the last one. */
  get isWhole(): boolean {
    return fstatSync(this.fd).size >= this.last_part * RECORD_BYTES
  }

  at(part: number): Uint8Array {
    if (part === this.last_part) return this.last
    const waiting = this.unwritten.get(part)
    if (waiting !== undefined) return waiting
    const bytes = this.cached.get(part) ?? this.read(part)
    this.cached.delete(part)
    this.cached.set(part, bytes)
    if (this.cached.size > LIMITS.tree_parts_cached_max) this.cached.delete(this.cached.keys().next().value!)
    return bytes
  }

  open(part: number): void {
    if (part > 0) {
      this.unwritten.set(this.last_part, this.last)
      this.write()
    }
    this.last = new Uint8Array(PART_BYTES)
    this.last_part = part
  }

  reopen(part: number): void {
    if (part === this.last_part) return
    this.last = part < 0 ? new Uint8Array(PART_BYTES) : this.at(part).slice()
    this.last_part = Math.max(0, part)
    this.cached.clear()
    for (const later of [...this.unwritten.keys()]) if (later >= this.last_part) this.unwritten.delete(later)
    this.spoiled.reopened()
  }

  /** False while the disk is too full for a part. */
  sync(): boolean {
    this.write()
    if (this.unwritten.size > 0) return false
    fsyncSync(this.fd)
    return true
  }

  close(): void {
    closeSync(this.fd)
  }

  private write(): void {
    for (const [part, bytes] of [...this.unwritten]) {
      const record = concatBytes(bytes, this.tagOf(part, bytes))
      try {
        writeWhole(this.fd, record, RECORD_BYTES, part * RECORD_BYTES)
      } catch (error) {
        if (!isFull(error)) throw error
        return
      }
      this.unwritten.delete(part)
    }
  }

  private read(part: number): Uint8Array {
    const record = new Uint8Array(RECORD_BYTES)
    const length = readWhole(this.fd, record, part * RECORD_BYTES)
    const bytes = record.subarray(0, PART_BYTES)
    if (length === RECORD_BYTES && timingSafeEqual(this.tagOf(part, bytes), record.subarray(PART_BYTES)))
      return bytes
    this.spoiled.damaged()
    throw new TreesDamaged('a file of the trees is damaged: the next start computes it again')
  }
}

type Level = { tree: keyof Trees; height: number; level: TreeLevel; parts: FileParts }

export class TreeFiles {
  readonly trees: Trees
  private readonly levels: Level[] = []
  private readonly key: Uint8Array
  private readonly folder: number
  /** Once a part differs, no edge may claim it again. */
  private damaged = false

  /** Opens the trees of the folder; empty ones if they do not authenticate. */
  constructor(
    private readonly dir: string,
    key: Uint8Array,
  ) {
    this.folder = openSync(dir, 'r')
    this.key = new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), 'tacit/tree-files/v1', 32))
    const edge = this.readEdge()
    this.trees = this.openTrees(edge)
    if (this.levels.every(({ parts }) => parts.isWhole)) return
    this.closeLevels()
    this.trees = this.openTrees(new Map())
  }

  /** Makes the present trees those of the next start, unless a file is damaged or the disk full: it is fed the rest then. */
  save(): void {
    if (this.damaged || !this.levels.every(({ parts }) => parts.sync())) return
    const levels = this.levels.map(({ tree, height, level, parts }) => {
      const last = Math.max(0, Math.ceil(level.length / PART_NODES) - 1)
      const bytes = parts.at(last).subarray(0, (level.length - last * PART_NODES) * NODE_BYTES)
      return { tree, height, nodes: level.length, last: bytes }
    })
    const edge = EDGE.encode({ levels })
    const path = join(this.dir, EDGE_NAME)
    try {
      // Synced before it takes the place of the one before: after a power loss one of them is there.
      writeFileSync(`${path}.new`, SEALED.encode({ tag: this.tag(edge), edge }), { mode: 0o600, flush: true })
    } catch (error) {
      rmSync(`${path}.new`, { force: true })
      if (!isFull(error)) throw error
      return
    }
    renameSync(`${path}.new`, path)
  }

  close(): void {
    this.save()
    this.closeLevels()
    closeSync(this.folder)
  }

  private closeLevels(): void {
    for (const { parts } of this.levels.splice(0)) parts.close()
  }

  private openTrees(edge: ReadonlyMap<string, { nodes: number; last: Uint8Array }>): Trees {
    return treesOf((tree, height) => {
      const name = `${tree}.${height}`
      const { nodes, last } = edge.get(name) ?? { nodes: 0, last: new Uint8Array(0) }
      const bytes = new Uint8Array(PART_BYTES)
      bytes.set(last)
      const tagOf = (part: number, nodes_of: Uint8Array) => this.tag(utf8(`${name} ${part} `), nodes_of)
      const last_part = Math.max(0, Math.ceil(nodes / PART_NODES) - 1)
      const parts = new FileParts(join(this.dir, `${name}.level`), tagOf, last_part, bytes, this.spoiled)
      const level = new TreeLevel(parts, nodes)
      this.levels.push({ tree, height, level, parts })
      return level
    })
  }

  /** A full part is about to be written again, or has other bytes than were written: the saved edge no longer counts. */
  private readonly spoiled: Spoiled = {
    reopened: () => {
      rmSync(join(this.dir, EDGE_NAME), { force: true })
      fsyncSync(this.folder)
    },
    damaged: () => {
      this.damaged = true
      this.spoiled.reopened()
    },
  }

  /** By name of a level; empty for any error. */
  private readEdge(): Map<string, { nodes: number; last: Uint8Array }> {
    try {
      const { tag, edge } = SEALED.decode(new Uint8Array(readFileSync(join(this.dir, EDGE_NAME))))
      if (!timingSafeEqual(tag, this.tag(edge))) return new Map()
      const { levels } = EDGE.decode(edge)
      return new Map(levels.map(({ tree, height, nodes, last }) => [`${tree}.${height}`, { nodes, last }]))
    } catch {
      return new Map()
    }
  }

  private tag(...parts: Uint8Array[]): Uint8Array {
    const hmac = createHmac('sha256', this.key)
    for (const part of parts) hmac.update(part)
    return new Uint8Array(hmac.digest())
  }
}

/** Finalized note leaves, and the spent log of the hashed batches. */
export type Trees = { notes: MerkleTree; spent: SpentLog }

/** Levels of the note tree that are recomputed rather than stored: leaves come in runs and paths are read singly. */
const NOTE_LEVELS_SKIPPED = 2

/** @param levelOf the level of a height in the tree of a name */
function treesOf(levelOf: (tree: keyof Trees, height: number) => TreeLevel): Trees {
  return {
    notes: new MerkleTree((height) => levelOf('notes', height), NOTE_LEVELS_SKIPPED),
    spent: new SpentLog((height) => levelOf('spent', height)),
  }
}

export function emptyTrees(): Trees {
  return treesOf(() => new TreeLevel())
}

/** Appends the new part of `leaves`, which start at `first_index`. @throws Error on a gap or a changed leaf */
export function appendLeaves(trees: Trees, first_index: number, leaves: Uint8Array[]): void {
  const known = trees.notes.leaf_count - first_index
  if (known < 0) throw new Error('leaves leave a gap')
  const overlap = leaves.slice(0, known)
  if (overlap.some((leaf, at) => !equalBytes(leaf, trees.notes.leaf(first_index + at)))) {
    throw new Error('a finalized leaf changed')
  }
  trees.notes.append(leaves.slice(overlap.length))
}

/**
 * Makes consecutive batches the end of the log, in place of those known from the first that differs.
 * @param save is called once the log was cut, before it grows: a process that is killed then must not find the old end again
 * @throws Error on a gap
 */
export function restoreSpent(
  trees: Trees,
  batches: { batch_id: number; nullifiers: Uint8Array[] }[],
  save: () => void = () => undefined,
): void {
  const first = batches[0]?.batch_id ?? 0
  if (first > trees.spent.leaf_count + 1 || batches.some(({ batch_id }, at) => batch_id !== first + at))
    throw new Error('settlement batches leave a gap')
  const leaves = batches.map(({ batch_id, nullifiers }) => spentLogLeaf(batch_id, nullifiers))
  const known = Math.min(leaves.length, trees.spent.leaf_count - first + 1)
  const same = leaves
    .slice(0, known)
    .findIndex((leaf, at) => !equalBytes(leaf, trees.spent.leaf(first - 1 + at)))
  if (same !== -1) {
    trees.spent.truncate(first - 1 + same)
    save()
  }
  trees.spent.append(leaves.slice(same === -1 ? known : same))
}

function hashOutput(output: HashOutput): HashResult['outputs'][number] {
  const blinding = outputBlinding(output)
  const inner = noteInner(output.owner, blinding)
  const commitment = settlementCommitment({ mint: output.mint, amount: output.amount, inner })
  return { blinding, commitment, memo: encodeMemo(blinding, output.amount) }
}

function refundBlinding(refund: HashRefund): Uint8Array {
  return outputBlinding({ ...refund, order_id: new Uint8Array(16) })
}

/**
 * Hashes the next settlement batch and appends it to the spent log. The newest batch may be requested again (a crash lost
 * the result before it was journaled); the log then stays unchanged.
 * @throws Error when the batch is neither the newest nor the next, or differs from the one hashed before
 */
export function hashBatch({ spent }: Trees, job: HashJob): HashResult {
  const { batch_id } = job
  const nullifiers = job.inputs.map((input) =>
    input.nullifier === undefined ? nullifierOf(input.commitment, input.blinding) : input.nullifier,
  )
  const leaf = spentLogLeaf(batch_id, [...nullifiers].sort(compareBytes))
  if (batch_id === spent.leaf_count + 1) spent.append([leaf])
  else if (batch_id !== spent.leaf_count) throw new Error('settlement batches are hashed in order')
  else if (!equalBytes(leaf, spent.leaf(batch_id - 1))) throw new Error('a hashed batch changed')
  const refund_blindings = job.refunds.map(refundBlinding)
  return {
    nullifiers,
    outputs: job.outputs.map(hashOutput),
    refund_inners: job.refunds.map((refund, at) => noteInner(refund.owner, refund_blindings[at]!)),
    refund_blindings,
  }
}
