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

  constructor(
    private readonly state: State,
    private readonly sequencer: Sequencer,
  ) {}

  /** Starts the grace period for every armed origin; call it before this process opens a socket. */
  begin(): void {
    for (const { account_id, armed } of this.state.accounts.values()) {
      if (armed.size > 0) this.orphans.set(account_id, [...armed])
    }
    if (this.orphans.size === 0) return
    this.timer = setTimeout(() => void this.fire(), LIMITS.disconnect_grace_ms)
    this.timer.unref()
  }

  /** The account armed a new socket: disarms its earlier ones, whose orders stay. */
  async returned(account_id: string): Promise<void> {
    for (const origin of this.take(account_id)) {
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
  }

  private take(account_id: string): string[] {
    const origins = this.orphans.get(account_id) ?? []
    this.orphans.delete(account_id)
    return origins
  }
}
