/**
 * Delays cancel-on-disconnect after a crash, and where a node of a cluster is lost: traders whose sockets were armed get a
 * grace period to reconnect before their orders are cancelled. A planned stop disarms the sockets that it closes.
 */
import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import { nodeOf } from '../machine/state/account'
import type { State } from '../machine/state/state'
import type { ClockPort } from '../ports'
import type { Sequencer } from './sequencer'

/** By armed socket of this process, the last call that armed or disarmed it. */
export type ArmedSockets = Map<string, { account_id: string }>

/**
 * If calls for one socket overlap, the last one counts: none deletes or restores the entry of another.
 * @param record journals it.
 * @throws its error
 */
export async function arming(
  sockets: ArmedSockets,
  { account_id, origin, armed }: { account_id: string; origin: string; armed: boolean },
  record: () => Promise<unknown>,
): Promise<void> {
  const before = sockets.get(origin)
  const call = { account_id }
  const end = (entry: typeof before) => {
    if (sockets.get(origin) !== call) return
    if (entry === undefined) sockets.delete(origin)
    else sockets.set(origin, entry)
  }
  sockets.set(origin, call)
  try {
    await record()
    if (!armed) end(undefined)
  } catch (error) {
    if (error instanceof Refusal && error.applied === 'no') end(before)
    throw error
  }
}

type Socket = { account_id: string; origin: string }
type Ports = {
  clock: Pick<ClockPort, 'monotonicMs'>
  sequencer: Pick<Sequencer, 'submit'>
  /** Whether a client can arm a socket now. */
  isServing: () => boolean
}

export class DisconnectGrace {
  /** By absent node, the spent part of its grace period: time in which this process served. */
  private readonly waits = new Map<string, number>()
  private timer: ReturnType<typeof setInterval> | undefined
  /** Time of the last count. */
  private ticked_ms = 0
  /** By account, the socket that it armed last, and the monotonic time, the oldest first. */
  private readonly armings = new Map<string, { origin: string; at_ms: number }>()

  constructor(
    private readonly state: State,
    private readonly ports: Ports,
    private readonly own: ArmedSockets,
  ) {}

  /**
   * All nodes count as absent, except for the sockets that this process opened while it followed. A node that was absent
   * before keeps the rest of its grace period: time without a serving leader does not count, as no client could return.
   */
  begin(): void {
    const { absent, accounts } = this.state
    // For an own armed socket, the node was lost or the arming was.
    for (const [origin, { account_id }] of this.own)
      if (!accounts.get(account_id)?.armed.has(origin)) this.own.delete(origin)
    const nodes = new Set(this.armed().map(({ origin }) => nodeOf(origin)))
    for (const node of absent.keys()) if (!nodes.has(node)) this.submitted(this.present(node))
    for (const node of nodes) this.wait(node, absent.get(node) ?? 0)
    this.ticked_ms = this.ports.clock.monotonicMs()
    this.timer = setInterval(() => this.tick(), LIMITS.disconnect_tick_ms)
    this.timer.unref()
  }

  /**
   * Every LIMITS.disconnect_tick_ms, or later. Time in which no client could arm a socket does not count. The journal is behind
   * the count, so the next leader counts some of it again: the grace period can be longer, never shorter.
   */
  tick(): void {
    const now_ms = this.ports.clock.monotonicMs()
    const passed_ms = Math.min(Math.floor(now_ms - this.ticked_ms), LIMITS.disconnect_tick_max_ms)
    this.ticked_ms = now_ms
    if (!this.ports.isServing()) return
    for (const [node, before_ms] of this.waits) {
      const spent_ms = before_ms + passed_ms
      this.waits.set(node, spent_ms)
      if (spent_ms >= LIMITS.disconnect_grace_ms) this.submitted(this.fire(node))
      else if (spent_ms - (this.state.absent.get(node) ?? 0) >= LIMITS.disconnect_drift_ms)
        this.absent(node, spent_ms)
    }
  }

  /**
   * The last connection of a node ended: without another one within the grace period, its sockets count as closed.
   * @param alive_ms monotonic time since which the node may have been dead: an account that armed a socket elsewhere since then
   * has already returned
   */
  nodeLost(node: string, alive_ms: number): void {
    const lost = this.armed(node)
    if (lost.length === 0) return
    this.wait(node, 0)
    const isBack = ({ account_id }: Socket) => {
      const newest = this.armings.get(account_id)
      // Also if that socket is no longer armed.
      return newest !== undefined && newest.at_ms >= alive_ms && !newest.origin.startsWith(node)
    }
    for (const one of lost.filter(isBack)) this.submitted(this.disarm(one))
  }

  /** Its armed sockets that are not `open` have closed. Resolves with those of `open` that are not armed. */
  async nodeBack(node: string, open: ReadonlySet<string>): Promise<string[]> {
    this.waits.delete(node)
    const armed = this.armed(node)
    const known = new Set(armed.map(({ origin }) => origin))
    await Promise.all([this.present(node), this.close(armed.filter(({ origin }) => !open.has(origin)))])
    return [...open].filter((one) => !known.has(one))
  }

  /** It ends as planned, and has said so behind everything that it passed on: its sockets are disarmed, like own ones. */
  async nodeLeaves(node: string): Promise<void> {
    await Promise.all(this.armed(node).map((one) => this.disarm(one)))
  }

  /**
   * Before an arming: an account that has all its armed sockets gives up those at absent nodes, because the machine would
   * disarm its oldest one, which stays open.
   * @throws Refusal `connection_limit`
   */
  makePlace(account_id: string, origin: string): void {
    const { armed } = this.state.accounts.get(account_id)!
    if (armed.has(origin) || armed.size < LIMITS.account_origins_max) return
    const absent = this.absentOf(account_id)
    if (absent.length === 0) throw new Refusal('connection_limit')
    for (const one of absent) this.submitted(this.disarm(one))
  }

  /** The account armed a new socket: disarms its sockets at absent nodes; their orders stay. */
  async returned(account_id: string, origin: string): Promise<void> {
    this.keepTime(account_id, origin)
    await Promise.all(this.absentOf(account_id).map((one) => this.disarm(one)))
  }

  /** Ends the grace period of a node. */
  async fire(node: string): Promise<void> {
    this.waits.delete(node)
    await Promise.all([this.close(this.armed(node)), this.present(node)])
  }

  /**
   * Disarms the sockets of this process before a planned stop, so that the next boot cancels nothing for them. Sockets of an
   * earlier process, and of other nodes, stay armed, as their clients were answered.
   */
  async disarmOwn(): Promise<void> {
    this.stop()
    const { accounts } = this.state
    const own = [...this.own].map(([origin, { account_id }]) => ({ account_id, origin }))
    const armed = own.filter((one) => accounts.get(one.account_id)?.armed.has(one.origin))
    await Promise.all(armed.map((one) => this.disarm(one)))
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private wait(node: string, spent_ms: number): void {
    this.waits.set(node, spent_ms)
    this.absent(node, spent_ms)
  }
  private absent(node: string, spent_ms: number): void {
    this.submitted(this.submit({ kind: 'node_absent', node, spent_ms }))
  }

  private keepTime(account_id: string, origin: string): void {
    const now_ms = this.ports.clock.monotonicMs()
    for (const [one, { at_ms }] of this.armings) {
      if (now_ms - at_ms < LIMITS.disconnect_grace_ms) break
      this.armings.delete(one)
    }
    this.armings.delete(account_id)
    this.armings.set(account_id, { origin, at_ms: now_ms })
  }

  /** Sockets that are armed in the state, whose names begin with `node`, except those that this process serves. */
  private armed(node = ''): Socket[] {
    const all = [...this.state.accounts.keys()].flatMap((account_id) => this.armedOf(account_id))
    return all.filter(({ origin }) => origin.startsWith(node))
  }
  private armedOf(account_id: string): Socket[] {
    const { armed } = this.state.accounts.get(account_id)!
    return [...armed].filter((one) => !this.own.has(one)).map((origin) => ({ account_id, origin }))
  }

  private absentOf(account_id: string): Socket[] {
    return this.armedOf(account_id).filter(({ origin }) => this.waits.has(nodeOf(origin)))
  }

  private async close(sockets: readonly Socket[]): Promise<void> {
    await Promise.all(sockets.map((one) => this.submit({ kind: 'disconnected', ...one })))
  }
  private disarm(one: Socket): Promise<unknown> {
    return this.submit({ kind: 'arm_disconnect', ...one, armed: false })
  }
  private async present(node: string): Promise<void> {
    if (this.state.absent.has(node)) await this.submit({ kind: 'node_absent', node, spent_ms: undefined })
  }
  private submit(command: Parameters<Sequencer['submit']>[0]): Promise<unknown> {
    return this.ports.sequencer.submit(command)
  }
  /** The sequencer that stopped has reported the cause; the journal keeps the arming for the next leader. */
  private submitted(work: Promise<unknown>): void {
    work.catch(() => undefined)
  }
}
