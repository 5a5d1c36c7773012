/**
 * Delays cancel-on-disconnect after a crash: traders whose sockets were armed get a grace period to reconnect before their
 * orders are cancelled. A planned stop disarms all sockets instead.
 */
import { LIMITS } from '../limits'
import type { State } from '../machine/state/state'
import type { Sequencer } from './sequencer'

export class DisconnectGrace {
  /** Origins of the earlier process by account. */
  private readonly orphans = new Map<string, string[]>()
  private timer: ReturnType<typeof setTimeout> | undefined
  /** By node without a link. */
  private readonly lost = new Map<string, ReturnType<typeof setTimeout>>()

  constructor(
    private readonly state: State,
    private readonly sequencer: Sequencer,
  ) {}

  /** Starts the grace period for every armed origin but those of `own` sockets, which this process opened while it followed. */
  begin(own: ReadonlyMap<string, string> = new Map()): void {
    for (const { account_id, armed } of this.state.accounts.values()) {
      const orphans = [...armed].filter((origin) => !own.has(origin))
      if (orphans.length > 0) this.orphans.set(account_id, orphans)
    }
    if (this.orphans.size === 0) return
    this.timer = setTimeout(() => void this.fire(), LIMITS.disconnect_grace_ms)
    this.timer.unref()
  }

  /** A socket on another node is still open. */
  stays(account_id: string, origin: string): void {
    const left = this.take(account_id).filter((one) => one !== origin)
    if (left.length > 0) this.orphans.set(account_id, left)
  }

  /** The last link of a node ended: without another one within the grace period, its sockets count as closed. */
  nodeLost(node: string): void {
    this.nodeBack(node)
    const timer = setTimeout(() => void this.disconnectAll(node), LIMITS.disconnect_grace_ms)
    timer.unref()
    this.lost.set(node, timer)
  }

  nodeBack(node: string): void {
    clearTimeout(this.lost.get(node))
    this.lost.delete(node)
  }

  private async disconnectAll(node: string): Promise<void> {
    this.lost.delete(node)
    const armed = [...this.state.accounts.values()].flatMap(({ account_id, armed: origins }) =>
      [...origins].filter((one) => one.startsWith(node)).map((origin) => ({ account_id, origin })),
    )
    try {
      for (const one of armed) await this.sequencer.submit({ kind: 'disconnected', ...one })
    } catch {
      // As in `fire`.
    }
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

  /** Disarms every socket before a planned stop, so that the next boot cancels nothing. */
  async disarmAll(): Promise<void> {
    this.stop()
    this.orphans.clear()
    for (const { account_id, armed } of this.state.accounts.values()) {
      for (const origin of [...armed]) {
        await this.sequencer.submit({ kind: 'arm_disconnect', account_id, origin, armed: false })
      }
    }
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
