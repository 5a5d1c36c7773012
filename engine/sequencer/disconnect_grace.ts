/**
 * Delays cancel-on-disconnect after a crash, and where a node of a cluster is lost: traders whose sockets were armed get a
 * grace period to reconnect before their orders are cancelled. A planned stop disarms the sockets that it closes.
 */
import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import type { State } from '../machine/state/state'
import type { Sequencer } from './sequencer'

/** By the sockets of this process that are armed, the call that was the last to arm or disarm each. */
export type ArmedSockets = Map<string, { account_id: string }>

/**
 * Of calls for one socket that overlap the last one counts: none deletes or restores the entry of another.
 * @param record journals it. @throws what it throws
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

export class DisconnectGrace {
  /** Origins of the earlier process by account. */
  private readonly orphans = new Map<string, string[]>()
  private timer: ReturnType<typeof setTimeout> | undefined
  /** By node without a link. */
  private readonly lost = new Map<string, ReturnType<typeof setTimeout>>()

  constructor(
    private readonly state: State,
    private readonly sequencer: Sequencer,
    private readonly own: ArmedSockets,
  ) {}

  /** Starts the grace period for every armed origin but those that this process opened while it followed. */
  begin(): void {
    const armed = this.armed()
    for (const { account_id, origin } of armed)
      if (!this.own.has(origin))
        this.orphans.set(account_id, [...(this.orphans.get(account_id) ?? []), origin])
    // Of an own socket that was armed, the node was lost or the arming was.
    const known = new Set(armed.map(({ origin }) => origin))
    for (const origin of this.own.keys()) if (!known.has(origin)) this.own.delete(origin)
    if (this.orphans.size === 0) return
    this.timer = setTimeout(() => void this.fire(), LIMITS.disconnect_grace_ms)
    this.timer.unref()
  }

  /** The last connection of a node ended: without another one within the grace period, its sockets count as closed. */
  nodeLost(node: string): void {
    clearTimeout(this.lost.get(node))
    const timer = setTimeout(() => void this.disconnectAll(node), LIMITS.disconnect_grace_ms)
    timer.unref()
    this.lost.set(node, timer)
  }

  /** Its armed sockets that are not `open` have closed. Resolves with those of `open` that are not armed. */
  async nodeBack(node: string, open: ReadonlySet<string>): Promise<string[]> {
    clearTimeout(this.lost.get(node))
    this.lost.delete(node)
    const armed = this.armed(node)
    for (const { account_id, origin } of armed) {
      const left = this.take(account_id).filter((one) => one !== origin)
      if (left.length > 0) this.orphans.set(account_id, left)
    }
    const known = new Set(armed.map(({ origin }) => origin))
    await this.disconnect(armed.filter(({ origin }) => !open.has(origin)))
    return [...open].filter((one) => !known.has(one))
  }

  private async disconnectAll(node: string): Promise<void> {
    this.lost.delete(node)
    await this.disconnect(this.armed(node)).catch(() => {
      // As in `fire`.
    })
  }

  private async disconnect(sockets: ReturnType<DisconnectGrace['armed']>): Promise<void> {
    await Promise.all(sockets.map((one) => this.sequencer.submit({ kind: 'disconnected', ...one })))
  }

  /** Armed sockets whose names begin with `node`, by the state. */
  private armed(node = ''): { account_id: string; origin: string }[] {
    return [...this.state.accounts.values()].flatMap(({ account_id, armed }) =>
      [...armed].filter((one) => one.startsWith(node)).map((origin) => ({ account_id, origin })),
    )
  }

  /** The account armed a new socket: disarms its earlier ones, whose orders stay. */
  async returned(account_id: string): Promise<void> {
    const armed = this.state.accounts.get(account_id)?.armed ?? []
    const lost = [...armed].filter((origin) => [...this.lost.keys()].some((node) => origin.startsWith(node)))
    for (const origin of new Set([...this.take(account_id), ...lost])) {
      await this.sequencer.submit({ kind: 'arm_disconnect', account_id, origin, armed: false })
    }
  }

  /** Ends the grace period: disconnects the accounts that did not return. */
  async fire(): Promise<void> {
    try {
      for (const account_id of [...this.orphans.keys()]) {
        for (const origin of this.take(account_id)) {
          await this.sequencer.submit({ kind: 'disconnected', account_id, origin })
        }
      }
    } catch {
      // The sequencer stopped and has reported why; the journal keeps the arming for the next boot.
    }
  }

  /**
   * Disarms the sockets of this process before a planned stop, so that the next boot cancels nothing for them. Those of an
   * earlier process, and of other nodes, stay as their clients were answered.
   */
  async disarmOwn(): Promise<void> {
    this.stop()
    for (const { account_id, origin } of this.armed())
      if (this.own.has(origin))
        await this.sequencer.submit({ kind: 'arm_disconnect', account_id, origin, armed: false })
  }

  stop(): void {
    clearTimeout(this.timer)
    for (const timer of this.lost.values()) clearTimeout(timer)
  }

  private take(account_id: string): string[] {
    const origins = this.orphans.get(account_id) ?? []
    this.orphans.delete(account_id)
    return origins
  }
}
