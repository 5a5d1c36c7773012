/**
 * Lets several nodes append to one replicated log while members are killed and paused, requests arrive late and nodes depose
 * each other, and checks after each round that every acknowledged record is there once and in order.
 */

import { type Compare, Etcd, NoReply, type Operation, type TxnResult } from '../../../engine/cluster/etcd'
import { Deposed, ReplicatedLog, type Term } from '../../../engine/cluster/replicated_log'
import type { SignedFrame } from '../../../engine/journal/contract'
import type { ChainPoint } from '../../../protocol/units'
import type { EtcdCluster } from '../../../sandbox/cluster/etcd_cluster'
import { entryOf, SEALING, START, textsOf } from './log_entries'

/** A fault of the implementation that the campaign must find. */
export type Planted = 'no term compared' | 'acknowledged before the quorum' | 'head read after a lost reply'
export const FAULTS = [
  'none',
  'usurper',
  'late request',
  'member killed',
  'leader killed',
  'member paused',
  'leader paused',
  'two killed',
] as const
type Fault = (typeof FAULTS)[number]
const NODES = 3
const LATE_MS = 200

/** Only a planted bug throws it. */
class Unlanded extends Error {}

/** The way from one node to etcd. */
class Link extends Etcd {
  /** The next append is sent this much later than its sender gave it up. */
  late_ms = 0
  planted: Planted | undefined

  override async txn(
    compare: readonly Compare[],
    then: readonly Operation[],
    otherwise?: readonly Operation[],
  ) {
    const is_append = then.some((one) => 'put' in one && one.put.endsWith('/head'))
    if (!is_append) return super.txn(compare, then, otherwise)
    const { planted } = this
    const compared =
      planted === 'no term compared' ? compare.filter(({ key }) => !key.endsWith('/term')) : compare
    const send = (): Promise<TxnResult> => super.txn(compared, then, otherwise)
    if (planted === 'acknowledged before the quorum') {
      send().catch(() => undefined)
      return { succeeded: true, found: [] }
    }
    try {
      if (this.late_ms === 0) return await send()
      setTimeout(() => send().catch(() => undefined), this.late_ms)
      this.late_ms = 0
      throw new NoReply('the request is late')
    } catch (error) {
      if (planted !== 'head read after a lost reply') throw error
      const [head] = compare
      const { found } = await super.txn([], [{ get: head!.key }])
      const value = found[0]?.[0]?.value
      if (Bun.deepEquals(value, head!.value)) throw new Unlanded()
      throw error
    }
  }
}

/** One node with its copy of the log. */
class Node {
  readonly texts: string[] = []
  private point: ChainPoint = START
  term: Term | undefined

  constructor(
    readonly number: number,
    readonly link: Link,
    private readonly log: ReplicatedLog,
  ) {}

  async catchUp(): Promise<void> {
    for (;;) {
      const entries = await this.log.read(this.point)
      if (entries.length === 0) return
      this.take(entries)
    }
  }

  async lead(): Promise<{ term: Term; seq: number }> {
    const term = await this.log.takeTerm(this.number, this.point)
    await this.catchUp()
    this.term = term
    return { term, seq: this.point.seq }
  }

  /** @throws Unlanded when the node believes that the record is not in the log, and answers so */
  async append(text: string): Promise<void> {
    const entry = entryOf(this.point, text)
    await this.log.append(this.term!, entry)
    this.take([entry])
  }

  private take(entries: SignedFrame[]): void {
    this.texts.push(...textsOf(entries))
    this.point = entries.at(-1)!.to
  }
}

export class LogCampaign {
  /** Texts in the order of their acknowledgements, by term. */
  private readonly acknowledged = new Map<number, string[]>()
  /** Texts whose senders were answered that they were not taken. */
  private readonly refused: string[] = []
  /** To which seq the node that took a term had read the log before it appended. */
  private readonly read_to = new Map<number, number>()
  private readonly nodes: Node[]
  private readonly sealing: typeof SEALING
  private leading: Node
  private written = 0

  constructor(
    private readonly cluster: EtcdCluster,
    private readonly below: (count: number) => number,
    venue: number,
    planted?: Planted,
  ) {
    this.sealing = { ...SEALING, venue: new Uint8Array(32).fill(venue) }
    const { endpoints, tls } = cluster
    this.nodes = Array.from({ length: NODES }, (_, i) => {
      const link = new Link({ endpoints: [...endpoints.slice(i), ...endpoints.slice(0, i)], tls })
      link.planted = planted
      return new Node(i, link, new ReplicatedLog(link, this.sealing))
    })
    this.leading = this.nodes[0]!
  }

  get count(): number {
    return [...this.acknowledged.values()].reduce((sum, { length }) => sum + length, 0)
  }

  /** @throws Error with the rule that does not hold */
  async round(fault: Fault = FAULTS[this.below(FAULTS.length)]!): Promise<Fault> {
    if (this.leading.term === undefined) await this.lead(this.leading)
    await this.appends(this.leading, 1 + this.below(6))
    const heal = await this.inject(fault)
    try {
      await this.appends(this.leading, 1 + this.below(6))
    } finally {
      await heal()
    }
    await this.appends(this.leading, 1 + this.below(3))
    await this.check()
    return fault
  }

  /** Returns the function that ends the fault. */
  private async inject(fault: Fault): Promise<() => Promise<void>> {
    const { cluster } = this
    if (fault === 'none') return async () => undefined
    if (fault === 'usurper') return this.usurp()
    if (fault === 'late request') {
      this.leading.link.late_ms = 1 + this.below(LATE_MS)
      return async () => undefined
    }
    const leader = await cluster.leader()
    const other = (leader + 1 + this.below(2)) % 3
    const one = fault.startsWith('leader') ? leader : other
    if (fault.endsWith('paused')) {
      cluster.pause(one)
      // Sometimes the pause ends while a request waits in the member.
      const timer = setTimeout(() => cluster.resume(one), 500 + this.below(1_500))
      return async () => {
        clearTimeout(timer)
        cluster.resume(one)
        await cluster.untilWritable()
      }
    }
    const killed = fault === 'two killed' ? [leader, other] : [one]
    await Promise.all(killed.map((index) => cluster.kill(index)))
    const restart = () => {
      for (const index of killed.splice(0)) cluster.restart(index)
    }
    // Without a quorum nothing is appended until the members are back.
    const timer = setTimeout(restart, 200 + this.below(1_500))
    return async () => {
      clearTimeout(timer)
      restart()
      await cluster.untilWritable()
    }
  }

  /** Another node takes the term while the leader appends; the leader must notice. */
  private async usurp(): Promise<() => Promise<void>> {
    const deposed = this.leading
    const next = this.nodes[(deposed.number + 1 + this.below(2)) % NODES]!
    const appends = this.appends(deposed, 1 + this.below(4)).catch((error) => error)
    await this.lead(next)
    const ended = await appends
    if (ended !== undefined && !(ended instanceof Deposed)) throw ended
    const late = await this.appends(deposed, 1).catch((error) => error)
    if (!(late instanceof Deposed)) throw late ?? new Error('a deposed leader acknowledged')
    this.leading = next
    return async () => undefined
  }

  private async lead(node: Node): Promise<void> {
    const { term, seq } = await node.lead()
    this.read_to.set(term.number, seq)
    this.acknowledged.set(term.number, [])
  }

  private async appends(node: Node, count: number): Promise<void> {
    const { number } = node.term!
    for (let i = 0; i < count; i++) {
      const text = `${number} ${++this.written}`
      try {
        await node.append(text)
        this.acknowledged.get(number)!.push(text)
      } catch (error) {
        if (!(error instanceof Unlanded)) throw error
        this.refused.push(text)
        // The next command comes later than the late request.
        await Bun.sleep(2 * LATE_MS)
      }
    }
  }

  private async check(): Promise<void> {
    const { endpoints, tls } = this.cluster
    const reader = new Node(
      NODES,
      new Link({ endpoints, tls }),
      new ReplicatedLog(new Etcd({ endpoints, tls }), this.sealing),
    )
    await reader.catchUp()
    const { texts } = reader
    if (new Set(texts).size !== texts.length) throw new Error('a record is in the log twice')
    const taken = texts.find((text) => this.refused.includes(text))
    if (taken !== undefined) throw new Error('a record that was refused is in the log')
    for (const [term, acknowledged] of this.acknowledged) {
      const kept = new Set(acknowledged)
      const found = texts.filter((text) => kept.has(text))
      if (!Bun.deepEquals(found, acknowledged))
        throw new Error(`acknowledged records of term ${term} are lost or out of order`)
    }
    texts.forEach((text, i) => {
      const term = Number(text.split(' ')[0])
      for (const [later, seq] of this.read_to)
        if (later > term && i + 1 > seq)
          throw new Error(`term ${term} appended after term ${later} had read the log`)
    })
    for (const node of this.nodes.filter((one) => one.term === this.leading.term)) {
      await node.catchUp()
      if (!Bun.deepEquals(node.texts, texts)) throw new Error(`node ${node.number} has another log`)
    }
  }
}
