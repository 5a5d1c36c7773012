/** The asking side of reading: fetches chunks from the worker ahead of use and hands out their records. */
import type { JournalRecord } from './contract'
import { readRecords } from './group'
import { fromFailure, type Reply, type Request } from './messages'

/** Chunks asked for and not yet used: the next is decrypted while this one is replayed. */
const CHUNKS_AHEAD = 2
type ReadReply = Extract<Reply, { op: 'chunk' | 'read_failed' }>

export type JournalReader = {
  batches(): AsyncGenerator<JournalRecord[], void, undefined>
  receive(reply: ReadReply): void
  /** The journal closed; whoever waits is told. */
  abandon(error: Error): void
}

export function journalReader(
  id: number,
  from_seq: number,
  head_before: Uint8Array | undefined,
  post: (request: Request) => void,
  ended: () => void,
): JournalReader {
  const arrived: (ReadReply | Error)[] = []
  let wake: (() => void) | undefined

  function deliver(item: ReadReply | Error): void {
    arrived.push(item)
    wake?.()
  }

  async function nextReply(): Promise<ReadReply> {
    while (arrived.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    const item = arrived.shift() as ReadReply | Error
    if (item instanceof Error) throw item
    if (item.op === 'read_failed') throw fromFailure(item.failure)
    return item
  }

  async function* batches(): AsyncGenerator<JournalRecord[], void, undefined> {
    post({ op: 'read', reader: id, from_seq, head_before })
    for (let i = 0; i < CHUNKS_AHEAD; i++) post({ op: 'read_next', reader: id })
    let done = false
    try {
      while (!done) {
        const reply = await nextReply()
        if (reply.op !== 'chunk') continue
        done = reply.last
        if (!done) post({ op: 'read_next', reader: id })
        const records: JournalRecord[] = []
        readRecords(reply.groups, from_seq, records)
        if (records.length > 0) yield records
      }
    } finally {
      if (!done) post({ op: 'read_stop', reader: id })
      ended()
    }
  }

  return { batches, receive: deliver, abandon: deliver }
}
