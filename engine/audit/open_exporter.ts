/** Has one batch at a time exported by a thread that lives as long as its export. */

import { Refusal } from '../../protocol/refusals'
import type { ExportOrder } from './export_batch'

/** Without a file: no such auction. */
export type Reply = { file: Uint8Array<ArrayBuffer> | undefined; failure?: never } | { failure: string }

export class Exporter {
  private worker: Worker | undefined
  private end: ((error: Error) => void) | undefined

  /**
   * The encrypted file.
   * @throws Refusal `export_busy` or `auction_unknown`; an Error when the journal is damaged or the thread fails
   */
  async make(order: ExportOrder): Promise<Uint8Array<ArrayBuffer>> {
    if (this.worker !== undefined) throw new Refusal('export_busy')
    const worker = new Worker(new URL('./export_worker.ts', import.meta.url))
    this.worker = worker
    try {
      const reply = await new Promise<Reply>((resolve, reject) => {
        this.end = reject
        worker.onmessage = ({ data }: MessageEvent<Reply>) => resolve(data)
        worker.onerror = ({ message }) => reject(new Error(`the export thread failed: ${message}`))
        worker.postMessage(order)
      })
      if (reply.failure !== undefined) throw new Error(`the export failed: ${reply.failure}`)
      if (reply.file === undefined) throw new Refusal('auction_unknown')
      return reply.file
    } finally {
      worker.terminate()
      this.worker = undefined
    }
  }

  close(): void {
    this.end?.(new Refusal('draining'))
  }
}
