/** Rounds of seeded faults against clusters of node processes: laws are checked after each (cluster.md). */
import { LIMITS } from '../../../engine/limits'
import type { EtcdCluster } from '../../../sandbox/cluster/etcd_cluster'
import { Random } from '../../kit/random'
import type { Disk } from '../../kit/small_volume'
import type { Node } from './node'
import { World } from './world'

/** Ends the fault. */
export type Heal = () => Promise<void>
type Fault = {
  name: string
  /** Another node takes over, so the time to the next acknowledged order is measured. */
  takes_over?: true
  /** It goes on until commands acknowledged under it are older than the right of a front. */
  stale?: true
  /** Volumes of the nodes, disks of the members. */
  needs?: 'volumes' | 'disks'
  strike: (world: World, leader: Node) => Promise<Heal>
}

const ROUNDS_OF_A_CLUSTER = 25
const STALE_MS = 1_500
const MEETING_MS = 5_000
const STEPS_MS = [-3_600_000, -5_000, 700, 60_000, 86_400_000]
const NONE: Heal = async () => undefined

function other(world: World): Node {
  return world.random.pick(world.followers())
}
async function restarted(...killed: Node[]): Promise<Heal> {
  await Promise.all(killed.map((node) => node.kill()))
  return async () => {
    for (const node of killed) node.start()
  }
}
function cutOff({ links }: Node): Heal {
  for (const link of links) link.cut()
  return async () => {
    for (const link of links) link.mend()
  }
}
async function memberDown(world: World, is_leader: boolean): Promise<Heal> {
  const { etcd, random } = world
  const leader = await etcd.leader()
  const member = is_leader ? leader : (leader + 1 + random.below(2)) % 3
  await etcd.kill(member)
  return async () => {
    etcd.restart(member)
    await etcd.untilWritable()
  }
}
async function memberPaused(world: World): Promise<Heal> {
  const { etcd } = world
  const member = await etcd.leader()
  etcd.pause(member)
  return async () => {
    etcd.resume(member)
    await etcd.untilWritable()
  }
}
async function memberFull(world: World): Promise<Heal> {
  const { etcd, random, disks } = world
  const member = random.below(disks.length)
  disks[member]!.fill()
  await Bun.sleep(random.below(1_500))
  return async () => {
    // It may have ended by itself.
    await etcd.kill(member)
    disks[member]!.free()
    etcd.restart(member)
    await etcd.untilWritable()
  }
}
async function memberSlow({ disks, etcd, random }: World, member: number): Promise<Heal> {
  const hold_ms = 20 + random.below(400)
  await disks[member]!.slow(hold_ms, Math.ceil(1_500 / hold_ms))
  return () => etcd.untilWritable()
}
const both =
  (...heals: Heal[]) =>
  async () => {
    for (const heal of heals) await heal()
  }

/** The node goes on when another one has the term, before that one has written anything. */
async function pausedUntilDeposed(world: World, leader: Node): Promise<Heal> {
  const { term_ms } = world.stages
  leader.pause()
  const woken = (async () => {
    while (world.stages.term_ms === term_ms) await Bun.sleep(1)
    leader.resume()
  })()
  return () => woken
}

async function diskFull(world: World, node: Node): Promise<Heal> {
  world.suspects.add(node)
  world.fill(node)
  await Bun.sleep(world.random.below(1_500))
  return async () => {
    world.free(node)
    world.suspects.delete(node)
    if (node.stage === 'down') node.start()
  }
}

async function staleDisk(world: World, node: Node): Promise<Heal> {
  await node.kill()
  const kept = world.keepDisk(node)
  world.replaceDisk(node, kept)
  if (world.random.below(3) === 0) world.dropDisk(node)
  return async () => node.start()
}

async function stopped(world: World, leader: Node): Promise<Heal> {
  world.suspects.add(leader)
  await leader.call('stop')
  await leader.kill()
  world.suspects.delete(leader)
  return async () => leader.start()
}

/** The node dies while a client's command is under way; the command gets no answer. */
async function killedWithCommand(world: World): Promise<Heal> {
  const node = other(world)
  const { promise, resolve } = Promise.withResolvers<void>()
  const met = async () => {
    world.meeting = undefined
    await node.kill()
    resolve()
  }
  world.meeting = { through: node, when: world.random.pick(['before', 'behind']), met }
  const acting = Promise.all(world.clients.map((client) => client.act()))
  acting.catch(() => undefined)
  await Promise.race([promise, Bun.sleep(MEETING_MS)])
  world.meeting = undefined
  await node.kill()
  await acting
  return async () => node.start()
}

/** The node that is to lead, once it has the term, or serves. */
async function next(world: World, leader: Node, stage: 'term' | 'leads'): Promise<Node> {
  for (;;) {
    const node = world.nodes.find((one) => one !== leader && one.stage === stage)
    if (node !== undefined) return node
    await Bun.sleep(1)
  }
}

/** While the leading node gives its term away, about LIMITS.node_live_ms after it began, or at a step of that. */
async function handing(
  world: World,
  leader: Node,
  strike: (next?: Node) => Heal | Promise<Heal>,
  stage?: 'term' | 'leads',
): Promise<Heal> {
  world.suspects.add(leader)
  const stopping = leader.call('stop').catch(() => undefined)
  if (stage === undefined) await Bun.sleep(LIMITS.node_live_ms - 200 + world.random.below(900))
  const heal = await strike(stage && (await next(world, leader, stage)))
  await Promise.race([stopping, Bun.sleep(LIMITS.handover_ms)])
  await leader.kill()
  world.suspects.delete(leader)
  return both(heal, async () => leader.start())
}

async function delayed(leader: Node, ms: number): Promise<Heal> {
  for (const link of leader.links) link.delayAppends(ms)
  await Bun.sleep(ms + 400)
  return async () => {
    for (const link of leader.links) link.mend()
  }
}
async function repliesLost(leader: Node, ms: number): Promise<Heal> {
  for (const link of leader.links) link.loseReplies()
  await Bun.sleep(ms)
  for (const link of leader.links) link.mend()
  return NONE
}

export const FAULTS: readonly Fault[] = [
  { name: 'leading node killed', takes_over: true, strike: (_, leader) => restarted(leader) },
  { name: 'following node killed', strike: (world) => restarted(other(world)) },
  { name: 'following node killed with a command under way', strike: killedWithCommand },
  {
    name: 'leading node and a follower killed',
    takes_over: true,
    strike: (world, leader) => restarted(leader, other(world)),
  },
  { name: 'leading node paused', takes_over: true, strike: pausedUntilDeposed },
  {
    name: 'following node paused',
    strike: async (world) => {
      const node = other(world)
      node.pause()
      await Bun.sleep(world.random.below(2_000))
      return async () => node.resume()
    },
  },
  { name: 'leading node cut off', takes_over: true, strike: async (_, leader) => cutOff(leader) },
  { name: 'following node cut off', stale: true, strike: async (world) => cutOff(other(world)) },
  { name: 'leading node stopped', takes_over: true, strike: stopped },
  {
    name: 'leading node killed while it hands over',
    takes_over: true,
    strike: (world, leader) => handing(world, leader, () => restarted(leader)),
  },
  {
    name: 'follower killed while the leading node hands over',
    takes_over: true,
    strike: (world, leader) => handing(world, leader, () => restarted(other(world))),
  },
  {
    name: 'leading node killed when another one has its term',
    takes_over: true,
    strike: (world, leader) => handing(world, leader, () => restarted(leader), 'term'),
  },
  {
    name: 'next node killed when it has the term',
    takes_over: true,
    strike: (world, leader) => handing(world, leader, (one) => restarted(one!), 'term'),
  },
  {
    name: 'next node killed when it serves',
    takes_over: true,
    strike: (world, leader) => handing(world, leader, (one) => restarted(one!), 'leads'),
  },
  {
    name: 'leading node cut off while it hands over',
    takes_over: true,
    strike: (world, leader) => handing(world, leader, () => cutOff(leader)),
  },
  { name: 'leading member killed', strike: (world) => memberDown(world, true) },
  { name: 'following member killed', strike: (world) => memberDown(world, false) },
  { name: 'leading member paused', strike: memberPaused },
  {
    name: 'leading node and member killed',
    takes_over: true,
    strike: async (world, leader) => {
      const [node, member] = await Promise.all([restarted(leader), memberDown(world, true)])
      return both(member, node)
    },
  },
  {
    name: 'leading node cut off, member killed',
    takes_over: true,
    strike: async (world, leader) => both(await memberDown(world, true), cutOff(leader)),
  },
  {
    name: 'replies of appends lost',
    strike: (world, leader) => repliesLost(leader, 200 + world.random.below(400)),
  },
  {
    name: 'appends delayed',
    strike: (world, leader) => delayed(leader, 1_300 + world.random.below(1_200)),
  },
  {
    name: 'leading node with a full disk',
    needs: 'volumes',
    strike: (world, leader) => diskFull(world, leader),
  },
  {
    name: 'following node with a full disk',
    needs: 'volumes',
    strike: (world) => diskFull(world, other(world)),
  },
  { name: 'member with a full disk', needs: 'disks', strike: memberFull },
  {
    name: 'leading member with a slow disk',
    needs: 'disks',
    strike: async (world) => memberSlow(world, await world.etcd.leader()),
  },
  {
    name: 'following member with a slow disk',
    needs: 'disks',
    strike: async (world) => memberSlow(world, ((await world.etcd.leader()) + 1) % world.disks.length),
  },
  { name: 'stale backup of etcd', strike: (world) => world.putBackLog() },
  {
    name: 'clock of a node steps',
    strike: async (world) => {
      await world.random.pick(world.nodes).call('step', world.random.pick(STEPS_MS))
      return NONE
    },
  },
  { name: 'stale disk of a follower', strike: (world) => staleDisk(world, other(world)) },
  { name: 'stale disk of the leading node', takes_over: true, strike: staleDisk },
]

export type Takeover = { fault: string; ms: number; detected_ms: number; opened_ms: number }

export class Campaign {
  readonly met = new Map<string, number>()
  readonly takeovers: Takeover[] = []
  private readonly random: Random
  /** Only faults draw from it, so a seed gives the same plan for any timing of its rounds. */
  private readonly plan: Random
  private readonly faults: readonly Fault[]
  /** Faults that have yet to come, before any comes again. */
  private left: Fault[] = []
  private world: World | undefined
  private before = 0
  private fronted_before = 0
  private rounds = 0

  /**
   * @param mountable whether the nodes get volumes that can be full
   * @param disks of the members; none where they have folders
   * @param names of the faults in the order of the rounds, again from the first; without them, drawn by the seed
   */
  constructor(
    private readonly etcd: EtcdCluster,
    seed: number,
    private readonly mountable: boolean,
    private readonly disks: readonly Disk[],
    private readonly names: readonly string[] = [],
  ) {
    this.random = new Random(seed)
    this.plan = new Random(seed + 1)
    const has = { volumes: mountable, disks: disks.length > 0 }
    this.faults = FAULTS.filter(({ needs }) => needs === undefined || has[needs])
  }

  /** Reads of acknowledged commands that fronts answered. */
  get fronted(): number {
    return this.fronted_before + (this.world?.clients ?? []).reduce((sum, { fronted }) => sum + fronted, 0)
  }

  get acknowledged(): number {
    return this.before + (this.world?.acknowledged ?? 0)
  }

  private drawn(): Fault {
    if (this.left.length === 0) this.left = [...this.faults]
    return this.left.splice(this.plan.below(this.left.length), 1)[0]!
  }

  /** @returns the name of the fault. @throws Error with the fault and the rule that does not hold */
  async round(): Promise<string> {
    if (this.rounds++ % ROUNDS_OF_A_CLUSTER === 0) await this.renew()
    const named = this.names[(this.rounds - 1) % this.names.length]
    const fault = named === undefined ? this.drawn() : this.faults.find(({ name }) => name === named)!
    try {
      await this.strike(fault, this.world!)
    } catch (cause) {
      throw new Error(`${fault.name}: ${(cause as Error).message}`, { cause })
    }
    this.met.set(fault.name, (this.met.get(fault.name) ?? 0) + 1)
    return fault.name
  }

  async close(): Promise<void> {
    this.before = this.acknowledged
    this.fronted_before = this.fronted
    const { world } = this
    this.world = undefined
    await world?.close()
  }

  private async renew(): Promise<void> {
    await this.close()
    this.world = await World.open(this.etcd, this.random, this.mountable, this.disks)
  }

  private async strike({ name, takes_over, stale, strike }: Fault, world: World): Promise<void> {
    const [alice, bob] = world.clients as [(typeof world.clients)[0], (typeof world.clients)[0]]
    await world.fund(8)
    await Promise.all(world.clients.map((client) => client.act()))
    const leader = await world.untilLed()
    // Under way when the fault comes.
    const flying = Promise.all(world.clients.map((client) => client.act()))
    flying.catch(() => undefined)
    await Bun.sleep(this.random.below(15))
    const began_ms = performance.now()
    const striking = strike(world, leader)
    striking.catch(() => undefined)
    await Bun.sleep(1)
    if (takes_over) {
      const next = world.untilLed(leader).then(() => alice.act())
      await Promise.all([next, bob.act()])
      const { term_ms, leads_ms } = world.stages
      const ms = performance.now() - began_ms
      this.takeovers.push({ fault: name, ms, detected_ms: term_ms - began_ms, opened_ms: leads_ms - term_ms })
    } else {
      await Promise.race([Promise.all([alice.act(), bob.act()]), striking.then(() => Bun.sleep(500))])
    }
    const heal = await striking
    if (stale === true) await Bun.sleep(STALE_MS)
    const readFronts = () => Promise.all(world.clients.map((client) => client.readFronts()))
    await readFronts()
    await heal()
    await readFronts()
    await flying
    await Promise.all(world.clients.map((client) => client.act()))
    if (this.random.below(3) === 0) await Promise.all([alice.cross(), bob.cross()])
    await world.check()
  }
}
