/** Opens replicated logs on a test's members, and makes signed entries for them, of records whose bodies are texts. */

import { Etcd } from '../../../engine/cluster/etcd'
import { ReplicatedLog, type Term } from '../../../engine/cluster/replicated_log'
import type { GroupAuthor, JournalRecord, NewRecord, SignedFrame } from '../../../engine/journal/contract'
import { encodeGroup, readRecords, signGroup } from '../../../engine/journal/frame'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import type { ChainPoint } from '../../../protocol/units'
import type { EtcdCluster } from '../../../sandbox/cluster/etcd_cluster'

export const SEALING = { key: new Uint8Array(32).fill(7), venue: new Uint8Array(32).fill(9) }
export const START: ChainPoint = { seq: 0, head: new Uint8Array(32) }
const AUTHOR: GroupAuthor = {
  epoch: 3,
  statement_key: new Uint8Array(32).fill(4),
  certificate: new Uint8Array(64).fill(5),
}

/** One group per text, behind `from`. */
export function entryOf(from: ChainPoint, ...texts: string[]): SignedFrame {
  return entryOfGroups(
    from,
    texts.map((text) => [{ type: 1, unix_ms: 1_760_000_000_000, body: utf8(text) }]),
  )
}

/** Signed by no boot of a venue. */
export function entryOfGroups(from: ChainPoint, records: readonly NewRecord[][]): SignedFrame {
  let to = from
  const groups = records.map((one) => {
    const group = encodeGroup(one, to.seq + 1, new Uint8Array(32))
    to = signGroup(group, to, () => new Uint8Array(64).fill(6)).point
    return group
  })
  return { author: AUTHOR, groups, from, to }
}

export function textsOf(entries: readonly SignedFrame[]): string[] {
  const records: JournalRecord[] = []
  for (const { groups } of entries) readRecords(concatBytes(...groups), 0, records)
  return records.map(({ body }) => new TextDecoder().decode(body))
}

/** Appends one entry per text to an empty log. */
export async function written(log: ReplicatedLog, term: Term, ...texts: string[]): Promise<SignedFrame[]> {
  const entries: SignedFrame[] = []
  for (const text of texts) {
    const entry = entryOf(entries.at(-1)?.to ?? START, text)
    await log.append(term, entry)
    entries.push(entry)
  }
  return entries
}

export async function all(log: ReplicatedLog, from: ChainPoint = START): Promise<SignedFrame[]> {
  const found: SignedFrame[] = []
  for (;;) {
    const more = await log.read(found.at(-1)?.to ?? from)
    if (more.length === 0) return found
    found.push(...more)
  }
}

type Members = Pick<EtcdCluster, 'endpoints' | 'tls'>
let venues = 0

/** Of a venue that no other log of the test file has. */
export const newSealing = () => ({ ...SEALING, venue: new Uint8Array(32).fill(++venues) })

/** A new log, as each of `nodes` nodes reaches it: each asks another member first. */
export function logsOf(members: Members, nodes = 1, sealing = newSealing()): ReplicatedLog[] {
  return Array.from({ length: nodes }, (_, first) => new ReplicatedLog(etcdOf(members, first), sealing))
}

export function etcdOf({ endpoints, tls }: Members, first = 0): Etcd {
  return new Etcd({ endpoints: [...endpoints.slice(first), ...endpoints.slice(0, first)], tls })
}
