/** Opens the hashing worker and implements HashPort over it. */

import { loadNativePoseidon } from '../../native/load_poseidon'
import { installPoseidon } from '../../protocol/notes/poseidon'
import type { HashPort, HashResult, SpentProof } from '../ports'
import type { HashingReply, HashingRequest, HashingView } from './hashing_worker'

type HashingParts = { dir: string; key: Uint8Array; fatal?: (error: Error) => void }

/**
 * @param dir folder of the trees' files (derived; may be deleted while no process uses them)
 * @param key 32 bytes that authenticate the files
 * @param fatal called when the worker failed or a file is damaged: only another start helps
 */
export async function openHashing({ dir, key, fatal = () => undefined }: HashingParts): Promise<HashPort> {
  // Answers of reshapes and refunds derive a few commitments on this thread.
  const native = loadNativePoseidon()
  if (native !== undefined) installPoseidon(native)
  const worker = new Worker(new URL('./hashing_worker.ts', import.meta.url).href)
  const call = caller(worker, fatal)
  let { view } = await call({ op: 'open', dir, key })

  const ask = async (request: HashingRequest): Promise<unknown> => {
    const reply = await call(request)
    view = reply.view
    return reply.value
  }
  return {
    hashBatch: async (job) => (await ask({ op: 'hash_batch', job })) as HashResult,
    async appendLeaves(first_index, fresh) {
      await ask({ op: 'append_leaves', first_index, leaves: fresh })
      return { leaf_count: view.leaf_count, root: view.root }
    },
    restoreSpent: async (batches) => void (await ask({ op: 'restore_spent', batches })),
    truncateSpent: async (batch_count) => void (await ask({ op: 'truncate_spent', batch_count })),
    async inclusion(leaf_index) {
      const proof = (await ask({ op: 'inclusion', leaf_index })) as {
        leaf: Uint8Array
        siblings: Uint8Array[]
      }
      return { ...proof, root: view.root, leaf_count: view.leaf_count }
    },
    spentPath: async (batch_id, batch_count) =>
      (await ask({ op: 'spent_path', batch_id, batch_count })) as Pick<SpentProof, 'siblings' | 'root'>,
    root: () => ({ leaf_count: view.leaf_count, root: view.root }),
    spent: () => ({ batch_count: view.batch_count, root: view.spent_root }),
    leaves: async (from, limit) => (await ask({ op: 'leaves', from, limit })) as Uint8Array[],
    async close() {
      await ask({ op: 'close' })
      worker.terminate()
    },
  }
}

type Answer = { view: HashingView; value: unknown }

/** Numbers requests and settles each with its reply; an error of the worker rejects all pending ones. */
function caller(worker: Worker, fatal: (error: Error) => void): (request: HashingRequest) => Promise<Answer> {
  const waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (error: Error) => void }>()
  let next_id = 1
  worker.onmessage = (message: MessageEvent<HashingReply>) => {
    const reply = message.data
    const waiter = waiting.get(reply.id)
    waiting.delete(reply.id)
    if (!('error' in reply)) return waiter?.resolve({ view: reply.view, value: reply.value })
    const error = new Error(`hashing: ${reply.error}`)
    if (reply.ends) fatal(error)
    waiter?.reject(error)
  }
  worker.onerror = ({ message }) => {
    const error = new Error(`hashing worker failed: ${message}`)
    fatal(error)
    for (const waiter of waiting.values()) waiter.reject(error)
    waiting.clear()
  }
  return (request) =>
    new Promise((resolve, reject) => {
      const id = next_id++
      waiting.set(id, { resolve, reject })
      worker.postMessage({ id, request })
    })
}
