/** A node of the campaign as its parent has it: the process, its links to etcd, its folder and its answers. */
import { mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import type { Passed } from '../../../engine/venue'
import type { RefusalCode } from '../../../protocol/refusals'
import type { EtcdCluster } from '../../../sandbox/cluster/etcd_cluster'
import { CutLink } from '../../kit/etcd/cut_link'
import type { EmbeddedSite } from '../../kit/venue/embedded_site'
import type { FromNode, NodeCalls, ToNode } from './node_process'

/** The call was answered by a refusal of the venue. */
export class Refused extends Error {
  constructor(
    readonly code: string,
    readonly applied: 'no' | 'yes' | 'unknown',
  ) {
    super(code)
  }
}
/** The process ended, or failed, before it answered. */
export class NodeGone extends Error {}

type Stage = 'down' | 'starts' | 'opens' | 'follows' | 'term' | 'leads'
type Answer<M extends keyof NodeCalls> = Awaited<ReturnType<NodeCalls[M]>>
export type NodeEnd = { name: string; message: string }
export type NodeWatch = {
  stage: (node: Node, stage: Stage) => void
  events: (account: string, events: { seq: number; text: string }[]) => void
  /** Carries the questions of a node that follows to the one that leads. */
  ask: (node: Node, passed: Passed | undefined) => Promise<{ value: unknown } | { code: RefusalCode }>
  /** It ended by itself. */
  ended: (node: Node, end: NodeEnd) => void
}

export class Node {
  stage: Stage = 'down'
  /** Why it ended by itself, each time. */
  readonly ends: string[] = []
  /** Killed, and not to be started but by `start`. */
  held = false
  private child: Bun.Subprocess | undefined
  private calls = 0
  private readonly waiting = new Map<number, PromiseWithResolvers<unknown>>()

  private constructor(
    readonly number: number,
    readonly dir: string,
    private readonly site: EmbeddedSite,
    private readonly etcd: EtcdCluster,
    readonly links: readonly CutLink[],
    private readonly watch: NodeWatch,
  ) {}

  static async make(number: number, site: EmbeddedSite, etcd: EtcdCluster, watch: NodeWatch): Promise<Node> {
    const links = await Promise.all(etcd.endpoints.map((endpoint) => CutLink.open(endpoint)))
    // Each node asks another member first.
    links.push(...links.splice(0, number % links.length))
    const dir = join(site.dir, `node-${number}`)
    mkdirSync(dir)
    return new Node(number, dir, site, etcd, links, watch)
  }

  start(): void {
    if (this.child !== undefined) return
    this.held = false
    const { site, dir } = this
    const log = openSync(`${dir}.log`, 'a', 0o600)
    const keys = { ...site.keys, settlement_seed: crypto.getRandomValues(new Uint8Array(32)) }
    const quote = site.machine.quoteEpoch(keys.settlement_seed)
    const { clock, quoteEpoch, ...place } = { ...site.place(), keys }
    const cluster = { endpoints: this.links.map(({ url }) => url), tls: this.etcd.tls }
    let end: NodeEnd | undefined
    const child = Bun.spawn([process.execPath, join(import.meta.dir, 'node_process.ts')], {
      stdio: ['ignore', log, log],
      serialization: 'advanced',
      ipc: (message: FromNode) => {
        if (message.op === 'quote')
          void quote(message.bound).then((quoted) => post({ op: 'quoted', id: message.id, quoted }))
        else if (message.op === 'ask')
          void this.watch
            .ask(this, message.passed)
            .then((answer) => post({ op: 'asked', id: message.id, ...answer }))
        else if (message.op === 'ready') post({ op: 'open', place: { ...place, data_dir: dir, cluster } })
        else if (message.op === 'fatal') end ??= message
        else this.receive(message, child)
      },
    })
    const post = (message: ToNode) => {
      if (this.child === child) child.send(message)
    }
    this.child = child
    this.move('starts')
    void child.exited.then(() => {
      if (this.child !== child) return
      this.leave()
      this.watch.ended(this, end ?? { name: 'exit', message: `${child.signalCode ?? child.exitCode}` })
    })
  }

  /** @throws Refused, NodeGone */
  call<M extends keyof NodeCalls>(method: M, ...args: Parameters<NodeCalls[M]>): Promise<Answer<M>> {
    const { child } = this
    if (child === undefined) return Promise.reject(new NodeGone('the node is down'))
    const waits = Promise.withResolvers<unknown>()
    const id = ++this.calls
    this.waiting.set(id, waits)
    try {
      child.send({ op: 'call', id, method, args } satisfies ToNode)
    } catch {
      this.waiting.delete(id)
      waits.reject(new NodeGone('the node takes no call'))
    }
    return waits.promise as Promise<Answer<M>>
  }

  /** kill -9. */
  async kill(): Promise<void> {
    const { child } = this
    this.held = true
    this.leave()
    child?.kill('SIGKILL')
    await child?.exited
  }

  pause(): void {
    this.child?.kill('SIGSTOP')
  }
  resume(): void {
    this.child?.kill('SIGCONT')
  }

  /** Ends the process and its links. */
  async remove(): Promise<void> {
    await this.kill()
    for (const link of this.links) link.close()
  }

  private receive(
    message: Exclude<FromNode, { op: 'quote' | 'ask' | 'ready' | 'fatal' }>,
    child: Bun.Subprocess,
  ): void {
    if (this.child !== child) return
    if (message.op === 'stage') this.move(message.stage)
    else if (message.op === 'events') this.watch.events(message.account, message.events)
    else {
      const waits = this.waiting.get(message.id)
      this.waiting.delete(message.id)
      if (message.op === 'answer') waits?.resolve(message.value)
      else if (message.op === 'refused') waits?.reject(new Refused(message.code, message.applied))
      else waits?.reject(new NodeGone(message.message))
    }
  }

  private move(stage: Stage): void {
    this.stage = stage
    this.watch.stage(this, stage)
  }

  private leave(): void {
    this.child = undefined
    this.move('down')
    for (const { reject } of this.waiting.values()) reject(new NodeGone('the node ended'))
    this.waiting.clear()
  }
}
