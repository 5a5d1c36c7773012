/** Preloaded into a process: SIGUSR2 makes the embedded chain of that process die of a fault in its own thread. */
const { Worker: Thread } = globalThis

globalThis.Worker = class extends Thread {
  constructor(url: string | URL, options?: WorkerOptions) {
    super(url, options)
    if (!String(url).endsWith('/chain_worker.ts')) return
    process.once('SIGUSR2', () => this.postMessage({ op: 'no such request' }))
  }
}
