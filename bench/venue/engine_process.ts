/** Runs the engine alone as a child process: filled, killed as in a crash, opened again. */
import { heapStats } from 'bun:jsc'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { answerQuestions } from '../kit/child_process'
import { fundNotes, restOrders, waveOfEvents } from './fund_notes'
import { type BenchEngine, openEngine, provisionAccounts } from './open_engine'

let open: BenchEngine | undefined

export type Held = { rss_bytes: number; heap_bytes: number; orders: number }
/** Time for the allocator to return freed memory and for idle threads to collect garbage. */
const SETTLE_MS = 12_000
export type Opened = Held & { ms: number; replayed: number }

answerQuestions({
  /** Opens the folder; the first opening of a folder provisions the accounts. */
  async open({ dir }: { dir: string }): Promise<Opened> {
    const fresh = !existsSync(join(dir, 'journal'))
    const started = performance.now()
    open = await openEngine(dir)
    const ms = performance.now() - started
    if (fresh) await provisionAccounts(open.venue)
    const { journal, snapshot } = open.engine.loaded
    return { ms, replayed: journal.head().seq - (snapshot?.seq ?? 0), ...held() }
  },
  async rest({ orders }: { orders: number }): Promise<Held> {
    await restOrders(open!, orders)
    await open!.engine.loaded.history.flush()
    return { ...held() }
  },
  /** The most that was resident while one snapshot was made. */
  async snapshot(): Promise<{ rss_bytes: number }> {
    let rss_bytes = 0
    const look = () => {
      rss_bytes = Math.max(rss_bytes, process.memoryUsage.rss())
    }
    const timer = setInterval(look, 50)
    await open!.engine.snapshotting.now()
    clearInterval(timer)
    return { rss_bytes }
  },
  async settle(): Promise<Held> {
    await Bun.sleep(SETTLE_MS)
    return held()
  },
  async fund({ notes }: { notes: number }): Promise<void> {
    await fundNotes(open!, notes)
  },
  /** Alternates places and cancels until `commands` commands are journaled. */
  async commands({ commands }: { commands: number }): Promise<void> {
    for (let done = 0; done < commands; done += 1_024) await waveOfEvents(open!, 128)
    await open!.engine.loaded.history.flush()
  },
  /** As a clean stop does: anchored, and a snapshot of the end. */
  async drain(): Promise<number> {
    const started = performance.now()
    await open!.venue.drain()
    return performance.now() - started
  },
  async close(): Promise<void> {
    await open!.venue.close()
  },
})

/** Resident memory as it is; live memory after a collection. */
function held(): Held {
  const rss_bytes = process.memoryUsage.rss()
  Bun.gc(true)
  // Includes the external memory of typed arrays.
  const { heapSize } = heapStats()
  return {
    rss_bytes,
    heap_bytes: heapSize,
    orders: open!.engine.state.orders.size,
  }
}
