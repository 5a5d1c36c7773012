/**
 * Simulates the disk of the journal's thread in memory. Unsynced writes and names live in the cache: the end of the process
 * keeps them, a power loss keeps any subset of them, writes by sectors of 512 bytes.
 */

import { basename, dirname } from 'node:path'
import type { Disk } from '../../engine/journal/disk'

const SECTOR = 512
/** The process ends here: no later call of it reaches the disk. */
class Ended extends Error {}

/** `versions` holds the contents a dirty sector had since the last sync. */
type Inode = {
  durable: Uint8Array
  cached: Uint8Array
  versions: Map<number, Uint8Array[]>
}
/** Changes of names in one folder that are durable together or not at all. */
type NameChange = [path: string, inode: Inode | undefined][]

/** The fault at a call that changes something; calls are counted from 1. */
type Trouble = { at: number; kind: 'ends' | 'EIO' | 'ENOSPC' | 'short' }

export class SimulatedDisk {
  /** Calls that change something, since `start`. */
  calls = 0
  private names = new Map<string, Inode>()
  private durable_names = new Map<string, Inode>()
  private unsynced: NameChange[] = []
  private files = new Map<number, Inode>()
  private readonly folders = new Map<string, Inode>()
  private next_fd = 1
  private trouble: Trouble | undefined
  private ended = false

  constructor(private readonly below: (count: number) => number) {}

  /** The next process starts; `trouble` is its own. */
  start(trouble?: Trouble): void {
    this.calls = 0
    this.ended = false
    this.trouble = trouble
    this.files.clear()
  }

  /** Whether the process has ended, or met its trouble and may end for it. */
  get troubled(): boolean {
    return this.ended || (this.trouble !== undefined && this.calls >= this.trouble.at)
  }

  /** The process ends; written bytes stay in the cache. */
  end(): void {
    this.ended = true
  }

  /** Power is lost: every inode keeps its synced bytes and any subset of the rest. */
  losePower(): void {
    this.ended = true
    // Now and then nothing or all of it, which independent draws hardly give.
    const mood = this.below(4)
    const keeps = () => mood === 0 || (mood !== 1 && this.below(2) === 0)
    const inodes = new Set([...this.names.values(), ...this.durable_names.values()])
    for (const change of this.unsynced)
      for (const [, inode] of change) if (inode !== undefined) inodes.add(inode)
    for (const inode of inodes) this.settle(inode, keeps)
    for (const change of this.unsynced) if (keeps()) apply(this.durable_names, change)
    this.unsynced = []
    // A folder whose name is lost takes its files along.
    for (const path of this.durable_names.keys())
      if (this.folders.has(dirname(path)) && !this.durable_names.has(dirname(path)))
        this.durable_names.delete(path)
    this.names = new Map(this.durable_names)
  }

  /** A host's copy: the files as they are, cache and all. */
  copy(): ReadonlyMap<string, Uint8Array> {
    return new Map([...this.names].map(([path, { cached }]) => [path, cached.slice()]))
  }

  putBack(files: ReadonlyMap<string, Uint8Array>): void {
    const inodes = [...files].map(([path, bytes]): [string, Inode] => [
      path,
      { durable: bytes.slice(), cached: bytes.slice(), versions: new Map() },
    ])
    this.names = new Map(inodes)
    this.durable_names = new Map(inodes)
    this.unsynced = []
  }

  private settle(inode: Inode, keeps: () => boolean): void {
    const { durable, cached, versions } = inode
    const size = cached.length !== durable.length && keeps() ? cached.length : durable.length
    const left = resized(durable, size)
    for (const [sector, contents] of versions) {
      if (!keeps()) continue
      const kept = contents[this.below(contents.length)]!
      left.set(kept.subarray(0, Math.max(0, size - sector * SECTOR)), Math.min(size, sector * SECTOR))
    }
    inode.durable = left
    inode.cached = left.slice()
    versions.clear()
  }

  private change(names: NameChange): void {
    apply(this.names, names)
    this.unsynced.push(names)
  }

  /** Counts a call; returns the trouble that it meets. */
  private step(): Trouble['kind'] | undefined {
    if (this.ended) throw new Ended()
    if (++this.calls !== this.trouble?.at) return undefined
    return this.trouble.kind
  }

  private mutate(change: () => void): void {
    const kind = this.step()
    // The process ends after a call that reached the disk, or before it.
    if (kind !== 'ends' || this.below(2) === 0) change()
    if (kind === 'ends') {
      this.ended = true
      throw new Ended()
    }
  }

  private writeTo(inode: Inode, bytes: Uint8Array, at: number): number {
    const kind = this.step()
    const length =
      kind === undefined ? bytes.length : (this.below(bytes.length + SECTOR) & -SECTOR) % (bytes.length + 1)
    this.put(inode, bytes.subarray(0, length), at)
    if (kind === 'ends') this.ended = true
    if (kind === 'ends') throw new Ended()
    if (kind === 'EIO' || kind === 'ENOSPC') throw Object.assign(new Error(kind), { code: kind })
    // A short write takes a byte at least.
    if (kind === 'short' && length === 0) return this.put(inode, bytes.subarray(0, 1), at)
    return length
  }

  private put(inode: Inode, bytes: Uint8Array, at: number): number {
    if (bytes.length === 0) return 0
    if (at + bytes.length > inode.cached.length) inode.cached = resized(inode.cached, at + bytes.length)
    inode.cached.set(bytes, at)
    const last = Math.floor((at + bytes.length - 1) / SECTOR)
    for (let sector = Math.floor(at / SECTOR); sector <= last; sector++) {
      const versions = inode.versions.get(sector) ?? []
      versions.push(inode.cached.slice(sector * SECTOR, (sector + 1) * SECTOR))
      inode.versions.set(sector, versions)
    }
    return bytes.length
  }

  private flush(inode: Inode): void {
    const kind = this.step()
    if (kind === 'ends') this.ended = true
    if (kind === 'ends') throw new Ended()
    if (kind === 'EIO') {
      // As Linux does: the pages count as written, and are not.
      inode.durable = resized(inode.durable, inode.cached.length)
      inode.versions.clear()
      throw Object.assign(new Error('EIO'), { code: 'EIO' })
    }
    inode.durable = resized(inode.durable, inode.cached.length)
    for (const [sector] of inode.versions)
      inode.durable.set(inode.cached.subarray(sector * SECTOR, (sector + 1) * SECTOR), sector * SECTOR)
    inode.versions.clear()
  }

  private inode(path: string): Inode {
    const inode = this.names.get(path)
    if (inode === undefined) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' })
    return inode
  }

  private file(fd: number): Inode {
    const inode = this.files.get(fd)
    if (this.ended || inode === undefined) throw new Ended()
    return inode
  }

  private rename(from: string, to: string): void {
    const inode = this.inode(from)
    this.mutate(() =>
      this.change([
        [to, inode],
        [from, undefined],
      ]),
    )
  }

  private remove(path: string): void {
    if (this.ended) throw new Ended()
    if (this.names.has(path)) this.mutate(() => this.change([[path, undefined]]))
  }

  private syncFolder(folder: Inode): void {
    const kind = this.step()
    if (kind === 'ends') this.ended = true
    if (kind === 'ends') throw new Ended()
    if (kind === 'EIO') throw Object.assign(new Error('EIO'), { code: 'EIO' })
    const lies = (change: NameChange) => this.known.get(dirname(change[0]![0])) === folder
    for (const change of this.unsynced) if (lies(change)) apply(this.durable_names, change)
    this.unsynced = this.unsynced.filter((change) => !lies(change))
  }

  /** Folders that were opened. */
  private readonly known = new Map<string, Inode>()

  /** Made by `mkdir`, a parent of one that was, or of a name without an extension, which every file has. */
  private isFolder(path: string): boolean {
    const made = [...this.folders.keys()].some((folder) => folder === path || dirname(folder) === path)
    return made || !(this.names.has(path) || basename(path).includes('.'))
  }

  private openFolder(path: string): Inode {
    const folder = this.names.get(path) ?? this.known.get(path) ?? emptyInode()
    this.known.set(path, folder)
    return folder
  }

  /** The calls, for `Object.assign(disk, ...)`. Folders that `mkdir` did not make exist. */
  readonly disk: Disk = {
    list: (dir) =>
      [...this.names.keys()]
        .filter((path) => dirname(path) === dir)
        .map((path) => path.slice(dir.length + 1)),
    mkdir: (path) => {
      if (this.names.has(path)) return
      const folder = this.openFolder(path)
      this.folders.set(path, folder)
      this.mutate(() => this.change([[path, folder]]))
    },
    exists: (path) => this.names.has(path),
    size: (path) => this.inode(path).cached.length,
    openSync: (path) => {
      const fd = this.next_fd++
      this.files.set(fd, this.isFolder(path) ? this.openFolder(path) : this.inode(path))
      return fd
    },
    createSync: (path, flags) => {
      if (flags === 'wx' && this.names.has(path)) throw Object.assign(new Error('EEXIST'), { code: 'EEXIST' })
      const inode = emptyInode()
      this.mutate(() => this.change([[path, inode]]))
      const fd = this.next_fd++
      this.files.set(fd, inode)
      return fd
    },
    closeSync: (fd) => void this.files.delete(fd),
    read: (fd, into, from, length, at) => {
      const part = this.file(fd).cached.subarray(at, at + length)
      into.set(part, from)
      return part.length
    },
    uncache: () => undefined,
    write: (fd, bytes, from, length, at) =>
      this.writeTo(this.file(fd), bytes.subarray(from, from + length), at),
    sync: (fd) => {
      const inode = this.file(fd)
      if ([...this.known.values()].includes(inode)) this.syncFolder(inode)
      else this.flush(inode)
    },
    datasync: (fd) => this.flush(this.file(fd)),
    writeOut: () => undefined,
    truncate: (path, bytes) =>
      this.mutate(() => {
        const inode = this.inode(path)
        inode.cached = resized(inode.cached, bytes)
        for (const sector of inode.versions.keys())
          if (sector * SECTOR >= bytes) inode.versions.delete(sector)
      }),
    renameSync: (from, to) => this.rename(from, to),
    rmSync: (path) => this.remove(path),
    create: async (path) => {
      const inode = emptyInode()
      this.mutate(() => this.change([[path, inode]]))
      return {
        write: async (bytes, from, length, at) => ({
          bytesWritten: this.writeTo(inode, bytes.subarray(from, from + length), at ?? inode.cached.length),
        }),
        datasync: async () => this.flush(inode),
        sync: async () => this.flush(inode),
        close: async () => undefined,
      }
    },
    rename: async (from, to) => this.rename(from, to),
    rm: async (path) => this.remove(path),
    freeBytes: async () => 2 ** 40,
  }
}

const emptyInode = (): Inode => ({ durable: new Uint8Array(), cached: new Uint8Array(), versions: new Map() })

function apply(names: Map<string, Inode>, change: NameChange): void {
  for (const [path, inode] of change) {
    if (inode === undefined) names.delete(path)
    else names.set(path, inode)
  }
}

function resized(bytes: Uint8Array, size: number): Uint8Array {
  const next = new Uint8Array(size)
  next.set(bytes.subarray(0, size))
  return next
}
