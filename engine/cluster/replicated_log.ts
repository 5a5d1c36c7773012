/** Keeps the tail of the journal in etcd: terms, conditional appends, reads and removal (cluster.md "Log"). */

import { randomBytes } from 'node:crypto'
import { equalBytes, toHex, utf8 } from '../../protocol/bytes'
import { blob, fixed, struct, tryDecode, u32, uint } from '../../protocol/codec'
import type { ChainPoint } from '../../protocol/units'
import type { SignedFrame } from '../journal/contract'
import { LIMITS } from '../limits'
import { type Compare, type Etcd, type KeyValue, NoReply, type Operation, type TxnResult } from './etcd'
import { type EntryKey, openEntry, sealEntry } from './log_entry'

/** The present leadership; `nonce` is of one boot, so that no two terms are equal. */
export type Term = { number: number; node: number; nonce: Uint8Array }

/** Another node leads: this one acknowledges nothing more. */
export class Deposed extends Error {
  override readonly name = 'Deposed'
}
/** The log lacks or contradicts records on this node's disk: no node may lead until it is repaired. */
export class LogRolledBack extends Error {
  override readonly name = 'LogRolledBack'
  /** @param repair arguments of a repair, if the log does not extend a journal */
  constructor(
    readonly what: string,
    readonly repair?: string,
  ) {
    super(repair === undefined ? what : `${what}: ${repair}`)
  }
}
/** Another node leads, which is allowed only from silent nodes. */
export class LeaderLives extends Error {
  override readonly name = 'LeaderLives'
}
/** The entries behind this node's journal were removed: a peer has them. */
export class LogGap extends Error {
  override readonly name = 'LogGap'
}
const GAP_MESSAGE =
  "this node's journal ends before the log begins: replace its data folder by that of a node that follows, stopped for the copy"

const TERM = struct({ number: uint, node: u32, nonce: fixed(16) })
const POINT = struct({ seq: uint, head: fixed(32) })
/** `url`: where the leader answers links, which it proves there. */
const BEAT = struct({ count: uint, url: blob })
const REPORT = struct({ seq: uint, count: uint, newest: uint })
/** Before each part of an entry: its number and the number of all. */
const PART = struct({ part: u32, parts: u32 })
const PART_HEADER_BYTES = PART.size!
/** Of a u32. */
const NODE_DIGITS = 10
const EMPTY: ChainPoint = { seq: 0, head: new Uint8Array(32) }

/** The end of a node's journal on disk, and the newest version that its build carries; `count` changes with each report. */
export type NodeReport = { seq: number; count: number; newest: number }

type Polled = Pick<Found, 'head' | 'term'> & { entries: SignedFrame[]; life: string; leader_url: string }

/** The result of one transaction. */
type Found = { head: ChainPoint; term: Term | undefined; term_bytes: Uint8Array | undefined }

export class ReplicatedLog {
  private readonly prefix: string
  private readonly head_key: string
  private readonly term_key: string
  private readonly beat_key: string

  constructor(
    private readonly etcd: Etcd,
    private readonly sealing: EntryKey,
  ) {
    this.prefix = `tacit/${toHex(sealing.venue)}/`
    this.head_key = `${this.prefix}head`
    this.term_key = `${this.prefix}term`
    this.beat_key = `${this.prefix}beat`
  }

  /** End of the log and present term, from one transaction. */
  async look(): Promise<Pick<Found, 'head' | 'term'>> {
    const { head, term } = decodeFound(await this.decided([], this.lookups()))
    return { head, term }
  }

  /**
   * Takes the term after the present one; `own` is the end of this node's journal, which the log must extend.
   * @param silent the term that showed no life: of two nodes that wait for it, the second takes nothing
   * @throws LogRolledBack, or Deposed when another node took a term meanwhile
   */
  async takeTerm(node: number, own: ChainPoint, silent?: { term: Term | undefined }): Promise<Term> {
    const seen = decodeFound(await this.decided([], this.lookups()))
    this.checkExtends(seen.head, own)
    if (silent !== undefined && !isSame(seen.term, silent.term))
      throw new Deposed('another node took the term')
    const term = { number: (seen.term?.number ?? 0) + 1, node, nonce: new Uint8Array(randomBytes(16)) }
    const value = TERM.encode(term)
    const result = await this.decided(
      [{ key: this.term_key, value: seen.term_bytes }],
      [{ put: this.term_key, value }],
      this.lookups(),
    )
    if (result.succeeded) return term
    // A repetition finds the term that the first request took.
    const { term_bytes } = decodeFound(result)
    if (term_bytes !== undefined && equalBytes(term_bytes, value)) return term
    throw new Deposed('another node took the term')
  }

  /**
   * Gives the next term to `node`, which recognizes it by its number. One comparison decides, so at most one node gets it, and
   * not if another node takes a term.
   * @throws Deposed when another node took a term meanwhile
   */
  async handTerm(mine: Term, node: number): Promise<void> {
    const next = TERM.encode({ number: mine.number + 1, node, nonce: new Uint8Array(randomBytes(16)) })
    const compare = [{ key: this.term_key, value: TERM.encode(mine) }]
    const result = await this.decided(compare, [{ put: this.term_key, value: next }], this.lookups())
    const { term_bytes } = result.succeeded ? { term_bytes: next } : decodeFound(result)
    if (term_bytes === undefined || !equalBytes(term_bytes, next))
      throw new Deposed('another node took the term')
  }

  /**
   * Appends one entry behind `entry.from`, which is on a quorum's disks when this resolves. Call again only then. After a
   * lost reply the same bytes with the same comparisons are sent until a transaction gives the verdict: a plain read may say
   * "not there" of an append that lands afterwards.
   * @throws Deposed; LogRolledBack when the log ends elsewhere although the term is this one
   */
  async append(term: Term, entry: SignedFrame): Promise<void> {
    const { from, to } = entry
    const mine: Compare[] = [
      { key: this.head_key, value: from.seq === 0 ? undefined : POINT.encode(from) },
      { key: this.term_key, value: TERM.encode(term) },
    ]
    const parts = partsOf(sealEntry(this.sealing, entry))
    for (const [part, value] of parts.entries()) {
      const last = part === parts.length - 1
      const then: Operation[] = [{ put: this.partKey(from.seq + 1, part), value }]
      if (last) then.push({ put: this.head_key, value: POINT.encode(to) })
      const result = await this.decided(mine, then, this.lookups())
      if (!result.succeeded) checkLanded(decodeFound(result), term, last ? to : undefined)
    }
  }

  /**
   * Entries behind `from` in order, as many as `LIMITS.log_read_parts` allows; none at the end of the log.
   * @throws LogRolledBack when the log does not extend `from`; LogGap when the next entries were removed
   */
  async read(from: ChainPoint): Promise<SignedFrame[]> {
    return this.entriesOf(await this.decided([], this.reads(from)), from)
  }

  /**
   * Reads once, with the end of the log, a value that changes while a leader lives, and the leader's address.
   * @throws NoReply, too
   */
  async poll(from: ChainPoint): Promise<Polled> {
    const result = await this.etcd.txn([], [...this.reads(from), { get: this.beat_key }])
    const { head, term, term_bytes } = decodeFound(result)
    const beat = result.found[3]?.[0]?.value
    const life = [term_bytes, head.head, beat].map((bytes) => toHex(bytes ?? new Uint8Array(0))).join(' ')
    const shown = beat && tryDecode(() => BEAT.decode(beat))
    const url = new TextDecoder().decode(shown?.url)
    // `fetch` also reads files.
    const leader_url = url.startsWith('https://') ? url : ''
    return { entries: this.entriesOf(result, from), head, life, term, leader_url }
  }

  /**
   * Shows the other nodes that this one leads; without `count` it only checks whether it does.
   * @throws NoReply; Deposed when another node does
   */
  async beat(term: Term, count?: number, url = ''): Promise<void> {
    const beat = () => BEAT.encode({ count: count!, url: utf8(url) })
    const shown = count === undefined ? [] : [{ put: this.beat_key, value: beat() }]
    const mine: Compare = { key: this.term_key, value: TERM.encode(term) }
    const result = await this.etcd.txn([mine], shown, this.lookups())
    if (!result.succeeded) throw new Deposed(`node ${decodeFound(result).term?.node ?? '?'} leads`)
  }

  private reads(from: ChainPoint): Operation[] {
    const first = this.partKey(from.seq + 1, 0)
    return [...this.lookups(), { range: first, to: this.logEnd(), most: LIMITS.log_read_parts }]
  }

  private entriesOf(result: TxnResult, from: ChainPoint): SignedFrame[] {
    const { head } = decodeFound(result)
    this.checkExtends(head, from)
    if (head.seq === from.seq) return []
    const pairs = result.found[2]!
    const entries: SignedFrame[] = []
    let point = from
    for (let at = 0; at < pairs.length && point.seq < head.seq; ) {
      const parts = partCount(pairs[at]!)
      // Parts of a deposed leader may follow the last part at this place.
      const named = pairs.slice(at, at + parts).filter(({ key }, i) => key === this.partKey(point.seq + 1, i))
      // The read ends within an entry or at such parts, or the next entries were removed.
      if (named.length === 0 || named.length !== parts) break
      const entry = openEntry(this.sealing, joined(named), point)
      if (entry === undefined) throw new LogRolledBack(`the entry behind seq ${point.seq} is not the venue's`)
      entries.push(entry)
      point = entry.to
      at += parts
    }
    if (entries.length === 0)
      throw new LogGap(`${GAP_MESSAGE} (the log no longer has the record ${from.seq + 1})`)
    return entries
  }

  /** Reports this node's journal end and version to the leader. @throws NoReply */
  async report(node: number, report: NodeReport): Promise<void> {
    await this.etcd.txn([], [{ put: this.nodeKey(node), value: REPORT.encode(report) }])
  }

  /** Newest reports by node; a value that no node writes is left out. @throws NoReply */
  async reports(): Promise<Map<number, NodeReport>> {
    const range = { range: this.nodeKey(0), to: `${this.prefix}node0`, most: LIMITS.log_nodes_max }
    const [pairs = []] = (await this.etcd.txn([], [range])).found
    const reports = new Map<number, NodeReport>()
    for (const { key, value } of pairs) {
      const report = tryDecode(() => REPORT.decode(value))
      const node = Number(key.slice(-NODE_DIGITS))
      if (report !== undefined && key === this.nodeKey(node)) reports.set(node, report)
    }
    return reports
  }

  /**
   * Removes the entries that begin before `seq`, and the reports of nodes that are gone, with all old versions of keys.
   * @returns bytes that the database used before
   * @throws NoReply, Deposed
   */
  async removeBefore(term: Term, seq: number, gone: readonly number[] = []): Promise<number> {
    const then: Operation[] = gone.map((node) => ({
      remove: this.nodeKey(node),
      to: `${this.nodeKey(node)}\0`,
    }))
    then.push({ remove: this.partKey(0, 0), to: this.partKey(seq, 0) })
    const result = await this.etcd.txn([{ key: this.term_key, value: TERM.encode(term) }], then)
    if (!result.succeeded) throw new Deposed('another node leads')
    return this.etcd.compact()
  }

  /**
   * Lets the log continue behind `own`, the end of the longest journal, and deposes every leader. Only for a log that ends
   * before it: entries behind the end of a journal are acknowledged. Entries stay, because no remaining disk may have them.
   * @throws LeaderLives; LogRolledBack when the log reaches `own`; Deposed when it moves meanwhile
   */
  async beginBehind(own: ChainPoint): Promise<void> {
    const lookups = [...this.lookups(), { get: this.beat_key }]
    const before = await this.decided([], lookups)
    await Bun.sleep(LIMITS.leader_silence_ms)
    const found = await this.decided([], lookups)
    const { head, term, term_bytes } = decodeFound(found)
    const [then_beat, beat] = [before, found].map((one) => one.found[2]?.[0]?.value)
    if (beat !== undefined && (then_beat === undefined || !equalBytes(then_beat, beat)))
      throw new LeaderLives(
        `node ${term?.node ?? '?'} leads and keeps what it acknowledged: end all nodes first`,
      )
    if (head.seq >= own.seq) throw new LogRolledBack(`the log ends at seq ${head.seq}, not before ${own.seq}`)
    const mine = { number: (term?.number ?? 0) + 1, node: 0, nonce: new Uint8Array(randomBytes(16)) }
    const seen: Compare[] = [
      { key: this.head_key, value: head.seq === 0 ? undefined : POINT.encode(head) },
      { key: this.term_key, value: term_bytes },
      { key: this.beat_key, value: beat },
    ]
    const then: Operation[] = [
      // Parts that a deposed leader left.
      { remove: this.partKey(head.seq + 1, 0), to: this.logEnd() },
      { put: this.head_key, value: POINT.encode(own) },
      { put: this.term_key, value: TERM.encode(mine) },
    ]
    const result = await this.decided(seen, then, this.lookups())
    if (!result.succeeded) checkLanded(decodeFound(result), mine, own)
  }

  /** Names the arguments of a repair. @throws LogRolledBack */
  private checkExtends(head: ChainPoint, own: ChainPoint): void {
    const end = `venue ${toHex(this.sealing.venue)}, seq ${own.seq}, head ${toHex(own.head)}`
    if (head.seq < own.seq)
      throw new LogRolledBack(`the log ends at seq ${head.seq}, this journal at ${own.seq}`, end)
    if (head.seq === own.seq && !equalBytes(head.head, own.head))
      throw new LogRolledBack(`log and journal differ at seq ${own.seq}`, end)
  }

  /** Repeats one transaction until a member gives its verdict. */
  private async decided(
    compare: readonly Compare[],
    then: readonly Operation[],
    otherwise: readonly Operation[] = [],
  ): Promise<TxnResult> {
    for (;;) {
      try {
        return await this.etcd.txn(compare, then, otherwise)
      } catch (error) {
        if (!(error instanceof NoReply)) throw error
        await Bun.sleep(LIMITS.log_retry_ms)
      }
    }
  }

  private lookups(): Operation[] {
    return [{ get: this.head_key }, { get: this.term_key }]
  }

  private partKey(seq: number, part: number): string {
    return `${this.prefix}log/${String(seq).padStart(16, '0')}/${String(part).padStart(4, '0')}`
  }
  private nodeKey(node: number): string {
    return `${this.prefix}node/${String(node).padStart(NODE_DIGITS, '0')}`
  }
  private logEnd(): string {
    return `${this.prefix}log0`
  }
}

/** A nonce is of one term. */
const isSame = (one: Term | undefined, other: Term | undefined): boolean =>
  one === undefined || other === undefined ? one === other : equalBytes(one.nonce, other.nonce)

/** The verdict on an append whose comparison failed: it landed before, or it never will. */
function checkLanded({ head, term, term_bytes }: Found, mine: Term, to: ChainPoint | undefined): void {
  const is_mine = term_bytes !== undefined && equalBytes(term_bytes, TERM.encode(mine))
  if (to !== undefined && head.seq === to.seq && equalBytes(head.head, to.head)) return
  if (is_mine) throw new LogRolledBack(`the log ends at seq ${head.seq}, which this leader did not write`)
  throw new Deposed(`node ${term?.node ?? '?'} leads`)
}

/** @throws LogRolledBack when the value is not one that a node writes */
function decodeFound({ found: [head = [], term = []] }: TxnResult): Found {
  const [head_bytes, term_bytes] = [head[0]?.value, term[0]?.value]
  const found = tryDecode(() => ({
    head: head_bytes === undefined ? EMPTY : POINT.decode(head_bytes),
    term: term_bytes && TERM.decode(term_bytes),
    term_bytes,
  }))
  if (found === undefined || found.term?.number === Number.MAX_SAFE_INTEGER)
    throw new LogRolledBack('head or term of the log is not in a form that a node writes')
  return found
}

/** An entry larger than a request is written in parts; its head moves with the last. */
function partsOf(sealed: Uint8Array): Uint8Array[] {
  const parts = Math.max(1, Math.ceil(sealed.length / LIMITS.log_part_bytes))
  return Array.from({ length: parts }, (_, part) => {
    const bytes = sealed.subarray(part * LIMITS.log_part_bytes, (part + 1) * LIMITS.log_part_bytes)
    const value = new Uint8Array(PART_HEADER_BYTES + bytes.length)
    value.set(PART.encode({ part, parts }))
    value.set(bytes, PART_HEADER_BYTES)
    return value
  })
}

/** 0 for bytes that are no part. */
const partCount = ({ value }: KeyValue): number =>
  tryDecode(() => PART.decode(value.subarray(0, PART_HEADER_BYTES)))?.parts ?? 0

function joined(parts: readonly KeyValue[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts.map(({ value }) => value.subarray(PART_HEADER_BYTES))))
}
