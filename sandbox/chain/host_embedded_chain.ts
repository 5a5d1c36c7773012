/**
 * Runs an embedded chain on a worker thread, so that executing transactions and writing blocks never blocks the venue's
 * event loop. The thread ends with the process.
 */
import type { ChainReply, ChainRequest } from './chain_worker'
import type { GenesisOptions } from './genesis'

export type HostOptions = {
  data_dir: string
  slot_ms: number
  /** Preferred port; another when it is in use. */
  port?: number
  genesis: GenesisOptions
  /** The chain stopped unexpectedly after it was open: the venue must end. */
  failed(error: Error): void
}
export type HostedChain = {
  readonly url: string
  readonly program_id: Uint8Array
  /** Administers the vault. */
  readonly admin: Uint8Array
  /** Stops serving; everything landed is already on disk. Resolves also when the chain has failed. */
  close(): Promise<void>
}

/** @throws Error when the chain cannot be opened: its folder is in use or unusable, or the virtual machine does not load. */
export async function hostEmbeddedChain({ failed, ...open }: HostOptions): Promise<HostedChain> {
  const worker = new Worker(new URL('./chain_worker.ts', import.meta.url).href)
  const { promise: ended, resolve: end } = Promise.withResolvers<Error>()
  worker.onerror = ({ message }) => end(new Error(`the embedded chain failed: ${sentenceOf(message)}`))
  // A thread that exits emits no error.
  worker.addEventListener('close', () => end(new Error('the embedded chain ended by itself')))
  const ask = (request: ChainRequest): Promise<ChainReply | Error> => {
    const { promise: answered, resolve } = Promise.withResolvers<ChainReply>()
    worker.onmessage = ({ data }: MessageEvent<ChainReply>) => resolve(data)
    worker.postMessage(request)
    return Promise.race([answered, ended])
  }
  const opened = await ask({ op: 'open', ...open })
  if (opened instanceof Error || opened.op !== 'opened') {
    worker.terminate()
    throw opened instanceof Error ? opened : new Error(`the embedded chain did not open: ${reasonOf(opened)}`)
  }
  let closing = false
  void ended.then((error) => closing || failed(error))
  return {
    url: opened.url,
    program_id: new Uint8Array(opened.program_id),
    admin: new Uint8Array(opened.admin),
    async close() {
      if (closing) return
      closing = true
      await ask({ op: 'close' })
      worker.terminate()
    },
  }
}

/** The message line of a worker error, without the source excerpt around it. */
const sentenceOf = (message: string): string => /^\w*Error: (.+)$/m.exec(message)?.[1] ?? message

const reasonOf = (reply: ChainReply): string => (reply.op === 'refused' ? reply.message : 'no reason given')
