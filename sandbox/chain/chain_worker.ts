/** The worker thread that owns an embedded chain: its machine, its file and its server. */
import { publicKeyOf } from '../../protocol/sign'
import { type GenesisOptions, makeGenesis } from './genesis'
import { type OpenedChain, openEmbeddedChain } from './open_embedded_chain'

export type ChainRequest =
  | { op: 'open'; data_dir: string; slot_ms: number; port?: number; genesis: GenesisOptions }
  | { op: 'close' }
export type ChainReply =
  | { op: 'opened'; url: string; program_id: Uint8Array; admin: Uint8Array }
  | { op: 'refused'; message: string }
  | { op: 'closed' }

declare const self: Worker

let chain: OpenedChain | undefined

const reply = (message: ChainReply): void => postMessage(message)

async function open({ genesis, ...options }: ChainRequest & { op: 'open' }): Promise<void> {
  try {
    chain = await openEmbeddedChain(options)
    const program_id = await makeGenesis(chain, genesis)
    reply({ op: 'opened', url: chain.url, program_id, admin: publicKeyOf(chain.admin_seed) })
  } catch (error) {
    await chain?.close()
    reply({ op: 'refused', message: error instanceof Error ? error.message : 'unknown' })
  }
}

async function close(): Promise<void> {
  await chain?.close()
  reply({ op: 'closed' })
}

self.onmessage = ({ data }: MessageEvent<ChainRequest>) => {
  if (data.op === 'open') void open(data)
  else if (data.op === 'close') void close()
  else throw new RangeError('the chain knows no such request')
}
