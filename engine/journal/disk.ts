/** Names the calls by which journal, snapshots and stores reach the disk: a test puts a simulated disk in their place. */
import { dlopen } from 'bun:ffi'
import * as fs from 'node:fs'
import { open, rename, rm, statfs } from 'node:fs/promises'
import { LIMITS } from '../limits'

/** The methods of an open file that callers use. */
export type DiskFile = {
  write(bytes: Uint8Array, from: number, length: number, at: number | null): Promise<{ bytesWritten: number }>
  datasync(): Promise<void>
  sync(): Promise<void>
  close(): Promise<void>
}
export type Disk = {
  list(dir: string): string[]
  /** Creates a folder, unless it exists, that only the owner enters. */
  mkdir(dir: string): void
  exists(path: string): boolean
  size(path: string): number
  openSync(path: string, flags: 'r' | 'r+'): number
  /** Creates or empties a file that only the owner reads; `wx` fails where there is one. */
  createSync(path: string, flags: 'w' | 'wx'): number
  closeSync(fd: number): void
  read(fd: number, into: Uint8Array, from: number, length: number, at: number): number
  /** Drops the cached pages of a file, as far as they are on the medium: the next read of them is of the medium. */
  uncache(fd: number): void
  write(fd: number, bytes: Uint8Array, from: number, length: number, at: number): number
  sync(fd: number): void
  datasync(fd: number): void
  /** Asks the kernel to write its cached pages of these bytes; neither makes them durable nor reports an error of the disk. */
  writeOut(fd: number, from: number, length: number): void
  truncate(path: string, bytes: number): void
  renameSync(from: string, to: string): void
  rmSync(path: string): void
  /** Like `createSync` with `w`, off this thread. */
  create(path: string): Promise<DiskFile>
  rename(from: string, to: string): Promise<void>
  rm(path: string): Promise<void>
  /** Bytes that this process may still allocate on the volume of a folder. */
  freeBytes(dir: string): Promise<number>
}

const DONTNEED = 4
/** Waits for the pages that are on their way, sends the others and waits for them. */
const WAIT_WRITE_WAIT = 7
const { posix_fadvise: fadvise, sync_file_range: syncRange } = dlopen('libc.so.6', {
  posix_fadvise: { args: ['i32', 'i64', 'i64', 'i32'], returns: 'i32' },
  sync_file_range: { args: ['i32', 'i64', 'i64', 'u32'], returns: 'i32' },
}).symbols

export const disk: Disk = {
  list: (dir) => fs.readdirSync(dir),
  mkdir: (dir) => void fs.mkdirSync(dir, { recursive: true, mode: 0o700 }),
  exists: (path) => fs.existsSync(path),
  size: (path) => fs.statSync(path).size,
  openSync: fs.openSync,
  createSync: (path, flags) => fs.openSync(path, flags, 0o600),
  closeSync: fs.closeSync,
  read: fs.readSync,
  uncache: (fd) => void fadvise(fd, 0, 0, DONTNEED),
  write: fs.writeSync,
  sync: fs.fsyncSync,
  datasync: fs.fdatasyncSync,
  writeOut: (fd, from, length) => void syncRange(fd, from, length, WAIT_WRITE_WAIT),
  truncate: fs.truncateSync,
  renameSync: fs.renameSync,
  rmSync: (path) => fs.rmSync(path, { force: true }),
  create: (path) => open(path, 'w', 0o600),
  rename,
  rm: (path) => rm(path, { force: true }),
  freeBytes: async (dir) => {
    const { bavail, bsize, files, ffree } = await statfs(dir)
    // A volume without inodes takes no new file even if it has space; some file systems do not count them.
    return files > 0 && ffree < LIMITS.disk_inodes_min ? 0 : bavail * bsize
  },
}

/** Fills `into` from `at` on, as far as the file goes; returns the bytes read. */
export function readWhole(fd: number, into: Uint8Array, at: number): number {
  for (let filled = 0; ; ) {
    const got = filled < into.length ? disk.read(fd, into, filled, into.length - filled, at + filled) : 0
    if (got === 0) return filled
    filled += got
  }
}

/**
 * Parses a file with `read`. If that throws, it is repeated with the bytes of the medium: an error of the disk may pass, and a
 * cached page may be wrong where the medium is not. Only the last attempt judges the file.
 */
export function readSurely<T>(fd: number, read: () => T): T {
  for (let attempt = 1; ; attempt++) {
    try {
      return read()
    } catch (error) {
      if (attempt === LIMITS.disk_read_attempts) throw error
      Bun.sleepSync(LIMITS.disk_reread_ms)
      disk.uncache(fd)
    }
  }
}

/** Writes the first `length` bytes. @throws Error when the disk takes none */
export function writeWhole(fd: number, bytes: Uint8Array, length: number, at: number): void {
  for (let done = 0; done < length; ) {
    const written = disk.write(fd, bytes, done, length - done, at + done)
    if (written <= 0) throw new Error('the disk took no byte of a write')
    done += written
  }
}

/** Like `writeWhole`, off this thread; `at` null appends. */
export async function writeFileWhole(
  file: DiskFile,
  bytes: Uint8Array,
  length: number,
  at: number | null,
): Promise<void> {
  for (let done = 0; done < length; ) {
    const { bytesWritten } = await file.write(bytes, done, length - done, at === null ? null : at + done)
    if (bytesWritten <= 0) throw new Error('the disk took no byte of a write')
    done += bytesWritten
  }
}

/** Whether the disk failed a call, as opposed to wrong bytes. */
export function isOfDisk(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^E[A-Z0-9]+$/.test(String(error.code))
}

/** Whether a call failed for lack of space, which may come back. */
export function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && (error.code === 'ENOSPC' || error.code === 'EDQUOT')
}

/** Measures the free space of the data volume, whose last part is reserved for cancels, withdrawals and a drain. */
export class DiskGauge {
  /** As of the last measurement that succeeded; none is made where the venue does not start. */
  free_bytes = Number.POSITIVE_INFINITY
  private timer: ReturnType<typeof setInterval> | undefined

  constructor(private readonly dir: string) {}

  /** Measures once, then at intervals. */
  async begin(): Promise<void> {
    await this.measure()
    this.timer = setInterval(() => void this.measure(), LIMITS.disk_look_ms)
  }

  stop(): void {
    clearInterval(this.timer)
  }

  /** Less than the reserve is free. */
  isFull(): boolean {
    return this.free_bytes < LIMITS.disk_reserve_bytes
  }

  async measure(): Promise<void> {
    // A volume that cannot be measured fails writes too, which say so themselves.
    this.free_bytes = await disk.freeBytes(this.dir).catch(() => this.free_bytes)
  }
}
