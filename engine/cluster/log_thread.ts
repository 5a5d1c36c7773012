/** Starts the journal's thread of a node and passes it the term that its appends need. */

import type { EtcdAccess } from './etcd'
import type { EntryKey } from './log_entry'
import type { Term } from './replicated_log'

/** Messages beside the journal's own. */
export type LogOrder = { op: 'log'; access: EtcdAccess; sealing: EntryKey } | { op: 'lead'; term: Term }

export type LogThread = {
  /** For `JournalOptions.thread`. */
  thread: () => Worker
  /** Appends from now on are made under this term; before the first one every append fails. */
  lead(term: Term): void
}

export function logThread(access: EtcdAccess, sealing: EntryKey): LogThread {
  let worker: Worker | undefined
  const order = (one: LogOrder) => worker?.postMessage(one)
  return {
    thread() {
      worker = new Worker(new URL('./log_worker.ts', import.meta.url))
      order({ op: 'log', access, sealing })
      return worker
    },
    lead: (term) => order({ op: 'lead', term }),
  }
}
