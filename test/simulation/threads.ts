/** Threads of a venue as functions in this one: messages are copied and pass through the simulated queue. */
import { writeSync } from 'node:fs'
import * as passphrase from '../../engine/accounts/passphrase_worker'
import * as exporter from '../../engine/audit/export_worker'
import * as log from '../../engine/cluster/log_worker'
import * as hashing from '../../engine/hashing/hashing_worker'
import * as history from '../../engine/history/history_worker'
import { type Disk, disk } from '../../engine/journal/disk'
import * as journal from '../../engine/journal/journal_worker'
import * as scrub from '../../engine/snapshots/scrub_worker'
import * as snapshot from '../../engine/snapshots/snapshot_worker'
import { Life, run } from './awaits'
import { failure, space } from './changes'
import { inVenue, type SimulatedTime } from './simulated_time'

type Port = {
  onmessage?: (message: { data: unknown }) => unknown
  onerror?: (error: { message: string }) => void
}
type Thread = (self: Port & { postMessage(data: unknown): void }) => void

/** `instrument.ts` has made each the default export of its file. */
const THREADS: Record<string, object> = {
  passphrase,
  export: exporter,
  hashing,
  history,
  journal,
  log,
  scrub,
  snapshot,
}

/** The calls that another thread makes, on this one. */
const own: Pick<Disk, 'create' | 'rename' | 'rm' | 'freeBytes'> = {
  create: async (path) => {
    if (/snapshot/.test(path)) space.fills?.()
    const fd = disk.createSync(path, 'w')
    return {
      async write(bytes, from, length, at) {
        if (space.isFull) throw failure('ENOSPC')
        return { bytesWritten: writeSync(fd, bytes, from, length, at) }
      },
      datasync: async () => disk.datasync(fd),
      sync: async () => disk.sync(fd),
      close: async () => disk.closeSync(fd),
    }
  },
  rename: async (from, to) => disk.renameSync(from, to),
  rm: async (path) => disk.rmSync(path),
  freeBytes: async () => (space.isFull ? 0 : 2 ** 40),
}

export function simulateThreads(time: SimulatedTime): void {
  Object.assign(disk, own)
  class SimulatedThread implements Port {
    onmessage?: (message: { data: unknown }) => unknown
    onerror?: (error: { message: string }) => void
    private readonly inner: Port & { postMessage(data: unknown): void }
    private readonly to: (() => void)[] = []
    private readonly from: (() => void)[] = []
    private readonly owner = time.current
    private readonly own = inVenue(new Life(this.owner?.life ?? run.venue))

    constructor(file: URL | string) {
      const name = /(\w+)_worker\.ts/.exec(String(file))![1]!
      this.inner = {
        postMessage: (data) => {
          const copy = structuredClone(data)
          time.message(this.from, () => this.own.life.alive && this.onmessage?.({ data: copy }), this.owner)
        },
      }
      const { default: runs } = THREADS[name] as { default: Thread }
      time.inside(this.own, () => runs(this.inner))
    }
    postMessage(data: unknown): void {
      const copy = structuredClone(data)
      time.message(this.to, () => void this.inner.onmessage?.({ data: copy }), this.own)
    }
    terminate(): void {
      this.own.life.end()
    }
    ref(): void {}
    unref(): void {}
  }
  Object.defineProperty(globalThis, 'Worker', { value: SimulatedThread, configurable: true })
}
