/** One cluster of the campaign: three node processes over three members of etcd, a chain, traders, and the rules that hold. */
import { cpSync, existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { Etcd } from '../../../engine/cluster/etcd'
import { ReplicatedLog } from '../../../engine/cluster/replicated_log'
import type { Passed } from '../../../engine/venue'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { equalBytes, fromHex } from '../../../protocol/bytes'
import type { RefusalCode } from '../../../protocol/refusals'
import type { ChainPoint } from '../../../protocol/units'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { instructionName } from '../../../protocol/vault/instruction'
import type { EtcdCluster } from '../../../sandbox/cluster/etcd_cluster'
import { dataOf, putBack } from '../../kit/etcd/put_back'
import type { Random } from '../../kit/random'
import { type Disk, Volume } from '../../kit/small_volume'
import { EmbeddedSite, eventsOf } from '../../kit/venue/embedded_site'
import type { Heal } from './campaign'
import { Client } from './clients'
import { Node, type NodeEnd, Refused } from './node'

const SLOT_MS = 50
const VOLUME = '1g'
const EQUAL_MS = 60_000
/** A node that has the same records and another state for so long has another state. */
const UNEQUAL_MS = 5_000
const RESTART_MS = 100
/** Another node leads: the ways in which the one before notices. */
const DEPOSED = /^node \d+ leads$|another node (leads|took the term)|leads no term/
/** A node in these stages has no state. */
const NOT_YET: readonly string[] = ['down', 'starts', 'opens']
/** Signed by the key of the epoch. */
const SETTLING: readonly unknown[] = ['settle', 'commit', 'anchor']

/**
 * A node ends with a passed-on command under way: before the leading one has it, or after its execution and before the answer.
 */
export type Meeting = { through: Node; when: 'before' | 'behind'; met: () => Promise<void> }
/** A node and the moments of its newest start. */
export type Stages = { term_ms: number; leads_ms: number }

export class World {
  readonly nodes: Node[] = []
  readonly clients: Client[] = []
  /** Of the node that led last. */
  stages: Stages = { term_ms: 0, leads_ms: 0 }
  /** A node under a fault may end in its ways. */
  readonly suspects = new Set<Node>()
  /** Until it is met traders send to its node alone. */
  meeting: Meeting | undefined
  /** The log may no longer have the entries that these lack. */
  private readonly behind = new Set<Node>()
  private leader: Node | undefined
  private fault: Error | undefined
  private readonly volumes = new Map<Node, Volume>()
  private readonly deposited = new Map<string, bigint>()
  private readonly signers = new Map<number, string>()
  private signers_read: string | undefined
  private epoch = 0
  private venue: Uint8Array = new Uint8Array(32)
  private is_ending = false

  private constructor(
    readonly site: EmbeddedSite,
    readonly etcd: EtcdCluster,
    readonly random: Random,
    readonly disks: readonly Disk[],
  ) {}

  /** @param mountable whether the nodes get volumes that can be full */
  static async open(
    etcd: EtcdCluster,
    random: Random,
    mountable: boolean,
    disks: readonly Disk[],
  ): Promise<World> {
    const site = new EmbeddedSite(SLOT_MS)
    const world = new World(site, etcd, random, disks)
    await site.openChain()
    // Reads mints for the check of conservation.
    await site.parts(join(site.dir, 'onlooker'))
    const watch = {
      stage: (node: Node) => world.moved(node),
      events: (account: string, events: { seq: number; text: string }[]) =>
        world.clients.find((client) => client.account === account)?.push(events),
      ask: (node: Node, passed: Passed | undefined) => world.askLeader(node, passed),
      ended: (node: Node, end: NodeEnd) => world.ended(node, end),
    }
    for (const number of [1, 2, 3]) {
      const node = await Node.make(number, site, etcd, watch)
      if (mountable) world.volumes.set(node, new Volume(node.dir, VOLUME))
      world.nodes.push(node)
      world.behind.add(node)
      node.start()
    }
    while (world.leading === undefined) await Bun.sleep(10)
    const venue = await world.leading.call('venue')
    world.venue = fromHex(venue, 32)!
    for (const [account, side] of [
      ['alice', 'buy'],
      ['bob', 'sell'],
      ['carol', 'buy'],
    ] as const) {
      await world.leading.call('provision', account)
      const client = new Client(account, side, site, random, world, venue)
      world.clients.push(client)
      await world.leading.call('follow', account, 0)
    }
    await world.checkStates()
    return world
  }

  /** The node that serves, as the traders know it. @throws Error for a forbidden act of a node */
  get leading(): Node | undefined {
    if (this.fault !== undefined) throw this.fault
    return this.leader
  }

  get acknowledged(): number {
    return this.clients.reduce((sum, { acknowledged }) => sum + acknowledged, 0)
  }

  /** Another node than `before` serves. */
  async untilLed(before?: Node): Promise<Node> {
    for (;;) {
      const { leading } = this
      if (leading !== undefined && leading !== before) return leading
      await Bun.sleep(5)
    }
  }

  /** As a link does: late now and then, and without an answer where none leads. */
  private async askLeader(
    node: Node,
    passed: Passed | undefined,
  ): Promise<{ value: unknown } | { code: RefusalCode }> {
    const { leader } = this
    if (leader === undefined) return { code: 'lease_lost' }
    const meets = (when: Meeting['when']) =>
      passed?.kind === 'command' && this.meeting?.through === node && this.meeting.when === when
    try {
      if (meets('before')) await this.meeting!.met()
      const value = await (passed === undefined ? leader.call('lead') : leader.call('passed', passed))
      if (meets('behind')) await this.meeting!.met()
      if (this.random.below(20) === 0) await Bun.sleep(this.random.below(1_500))
      return { value }
    } catch (error) {
      if (error instanceof Refused) return { code: error.code as RefusalCode }
      return { code: passed === undefined ? 'lease_lost' : 'outcome_unknown' }
    }
  }

  /** Where a trader sends its next command. */
  serving(): Node | undefined {
    const { leading, meeting } = this
    if (meeting !== undefined) return meeting.through
    const fronts = this.followers().filter(({ stage }) => stage === 'follows')
    return fronts.length > 0 && this.random.below(3) === 0 ? this.random.pick(fronts) : leading
  }

  followers(): Node[] {
    return this.nodes.filter((node) => node !== this.leader)
  }

  fill(node: Node): void {
    this.volumes.get(node)!.fill()
  }
  free(node: Node): void {
    this.volumes.get(node)!.free()
  }

  /** The folder of a node that is down becomes a copy of `from`. */
  replaceDisk(node: Node, from: string): void {
    this.behind.add(node)
    for (const name of readdirSync(node.dir)) rmSync(join(node.dir, name), { recursive: true, force: true })
    cpSync(from, node.dir, { recursive: true })
  }

  /** A copy of the disk of a node that is down; the first one stays. */
  keepDisk(node: Node): string {
    const copy = join(this.site.dir, `kept-${node.number}`)
    if (!existsSync(copy)) cpSync(node.dir, copy, { recursive: true })
    return copy
  }
  dropDisk(node: Node): void {
    rmSync(join(this.site.dir, `kept-${node.number}`), { recursive: true, force: true })
  }

  /** An older copy of etcd takes its place: every node is ahead of it and ends, and the log is repaired as they say. */
  async putBackLog(): Promise<Heal> {
    const { etcd, nodes, suspects } = this
    const kept = (member: number) => join(this.site.dir, `kept-member-${member}`)
    await putBack(etcd, dataOf(etcd), kept)
    const { endpoints, tls } = etcd
    const sealing = { key: this.site.keys.journal_key, venue: this.venue }
    const log = new ReplicatedLog(new Etcd({ endpoints, tls }), sealing)
    const { seq } = (await log.look()).head
    const isAhead = async (node: Node) => (await node.call('state')).seq > seq
    while (!(await Promise.all(nodes.map(isAhead)).catch(() => [false])).every(Boolean)) await Bun.sleep(20)
    for (const node of nodes) suspects.add(node)
    await putBack(etcd, kept, dataOf(etcd))
    while (nodes.some(({ stage }) => stage !== 'down')) await Bun.sleep(20)
    return async () => {
      const ends: { node: Node; point: ChainPoint }[] = []
      for (const node of nodes) ends.push({ node, point: await refusedPoint(node) })
      const { node, point } = ends.reduce((one, next) => (next.point.seq > one.point.seq ? next : one))
      await log.beginBehind(point)
      for (const one of ends) if (one.point.seq < point.seq) this.replaceDisk(one.node, node.dir)
      suspects.clear()
      for (const one of nodes) one.start()
    }
  }

  async fund(count: number): Promise<void> {
    for (const client of this.clients) {
      const amount = await client.funded(count)
      this.deposited.set(client.mint, (this.deposited.get(client.mint) ?? 0n) + amount)
    }
  }

  /** @throws Error with the rule that does not hold */
  async check(): Promise<void> {
    await this.checkStates()
    for (const client of this.clients) await client.check(await this.untilLed())
    this.checkSigners()
    await this.checkMoney()
  }

  async close(): Promise<void> {
    this.is_ending = true
    for (const node of this.nodes) await node.remove()
    for (const volume of this.volumes.values()) volume.remove()
    const { port, hash } = this.site
    await port.close()
    await hash.close()
    await this.site.remove()
  }

  private moved(node: Node): void {
    const now_ms = performance.now()
    if (node.stage === 'term') this.stages = { term_ms: now_ms, leads_ms: now_ms }
    if (node.stage === 'leads') {
      this.stages.leads_ms = now_ms
      this.leader = node
      for (const client of this.clients)
        client.follow(node).catch((error) => {
          if (node === this.leader && node.stage === 'leads') this.fail(`no stream: ${error.message}`)
        })
    }
    if (node.stage === 'down' && this.leader === node) this.leader = undefined
  }

  /** A process that ends is started again, as a container is. */
  private ended(node: Node, { name, message }: NodeEnd): void {
    if (this.is_ending) return
    node.ends.push(`${name}: ${message}`)
    if (name === 'LogGap' && this.behind.has(node))
      return void this.join(node).catch((error) => this.fail(`${error}`))
    if (!this.suspects.has(node) && !DEPOSED.test(message))
      this.fail(`node ${node.number} ended: ${name}: ${message}`)
    setTimeout(() => {
      if (!this.is_ending && !node.held && !this.suspects.has(node)) node.start()
    }, RESTART_MS)
  }

  /** As the error says: with the folder of a node that follows, stopped for the copy. */
  private async join(node: Node): Promise<void> {
    let from: Node | undefined
    for (; from === undefined; await Bun.sleep(20)) from = this.nodes.find((one) => one.stage === 'follows')
    await from.kill()
    this.replaceDisk(node, from.dir)
    from.start()
    node.start()
  }

  private fail(message: string): void {
    this.fault ??= new Error(message)
  }

  /** The same records and the same state on each node, at one moment. */
  async checkStates(): Promise<void> {
    const end_ms = performance.now() + EQUAL_MS
    let unequal_ms = Number.POSITIVE_INFINITY
    let seen: unknown
    for (; performance.now() < end_ms; await Bun.sleep(20)) {
      if (this.leading === undefined || this.nodes.some(({ stage }) => NOT_YET.includes(stage))) continue
      const states = await Promise.all(this.nodes.map((node) => node.call('state'))).catch(() => [])
      if (states.length === 0) continue
      const heads = new Set(states.map(({ seq, head }) => `${seq} ${head}`))
      if (heads.size > 1) {
        seen = [...heads]
        unequal_ms = Number.POSITIVE_INFINITY
        continue
      }
      if (new Set(states.map(({ hash }) => hash)).size === 1) return this.behind.clear()
      unequal_ms = Math.min(unequal_ms, performance.now())
      seen = states
      if (performance.now() - unequal_ms > UNEQUAL_MS)
        throw new Error(`states differ: ${JSON.stringify(seen)}`)
    }
    const stages = this.nodes.map(({ number, stage, ends }) => `node ${number} ${stage} (${ends.slice(-2)})`)
    throw new Error(`the nodes do not reach one state: ${stages.join(', ')}, ${JSON.stringify(seen)}`)
  }

  /** Settlements, commits and anchors of an epoch are signed by one key, which signs in no other. */
  private checkSigners(): void {
    const { machine } = this.site.chain
    const program = encodeBase58(this.site.place().program_id)
    const config = encodeBase58(vaultAddresses(this.site.place().program_id).config)
    const payer = this.site.fee_payer
    const rows: { signature: string }[] = []
    for (let before: string | undefined; ; before = rows.at(-1)!.signature) {
      const page = machine.store.history(config, machine.tip, before, this.signers_read, 100)
      rows.push(...page)
      if (page.length === 0) break
    }
    this.signers_read = rows[0]?.signature ?? this.signers_read
    for (const { signature } of rows.reverse()) {
      const landed = machine.store.transaction(signature)!
      if (landed.error !== 'null') continue
      for (const event of eventsOf(landed, program))
        if (event.kind === 'epoch_opened') this.epoch = event.epoch
      const settles = transactionInstructions(landed.bytes).some(({ data }) =>
        SETTLING.includes(instructionName(data)),
      )
      if (!settles) continue
      for (const signer of signersOf(landed.bytes).filter(
        (one) => !equalBytes(decodeBase58(one, 32)!, payer),
      )) {
        const known = this.signers.get(this.epoch)
        const others = [...this.signers].filter(([epoch]) => epoch !== this.epoch).map(([, key]) => key)
        if ((known !== undefined && known !== signer) || others.includes(signer))
          throw new Error(`epoch ${this.epoch} has another settlement signer`)
        this.signers.set(this.epoch, signer)
      }
    }
  }

  /** The vault holds, and owes, the deposits. */
  private async checkMoney(): Promise<void> {
    const { chain, port } = this.site
    chain.advance(chain.machine.depth.finalized + 1)
    const mints = await port.readMints()
    for (const [text, amount] of this.deposited) {
      const { balance, liabilities } = mints.find(({ mint }) => encodeBase58(mint) === text)!
      if (balance !== amount || liabilities !== amount)
        throw new Error(`the vault does not hold what was deposited`)
    }
  }
}

/** A node that is ahead of the log leads nothing, and names the end of its journal unless the chain is ahead of that. */
async function refusedPoint(node: Node): Promise<ChainPoint> {
  const known = node.ends.length
  node.start()
  while (node.ends.length === known) {
    if (node.stage === 'term') throw new Error('a node that is ahead of the log takes a term')
    await Bun.sleep(5)
  }
  if (/the chain contradicts this journal.*\(rolled_back\)$/.test(node.ends.at(-1)!))
    return { seq: 0, head: new Uint8Array(32) }
  const [, seq, head] = /^LogRolledBack: .*, seq (\d+), head ([0-9a-f]{64})$/.exec(node.ends.at(-1)!) ?? []
  if (seq === undefined)
    throw new Error(`a node that is ahead of the log ends otherwise: ${node.ends.at(-1)}`)
  return { seq: Number(seq), head: fromHex(head!, 32)! }
}

function signersOf(transaction: Uint8Array): string[] {
  const message = getCompiledTransactionMessageDecoder().decode(
    getTransactionDecoder().decode(transaction).messageBytes,
  )
  return message.staticAccounts.slice(0, message.header.numSignerAccounts)
}
