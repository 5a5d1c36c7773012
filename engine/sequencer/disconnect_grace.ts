/**
 * Sockets that were armed when the process died: their traders get a grace period to come back before their orders are
 * cancelled (cancel-on-disconnect). A planned stop disarms instead: `bye` never fires it.
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

  /** Begins the grace period for everything that is armed now: no socket of this process exists yet. */
  begin(): void {
    for (const { account_id, armed } of this.state.accounts.values()) {
      if (armed.size > 0) this.orphans.set(account_id, [...armed])
    }
    if (this.orphans.size === 0) return
    this.timer = setTimeout(() => void this.fire(), LIMITS.disconnect_grace_ms)
    this.timer.unref()
  }

  /** The account armed a new socket: it is in control again, and its earlier orders stay. */
  async returned(account_id: string): Promise<void> {
    for (const origin of this.take(account_id)) {
      await this.sequencer.submit({ kind: 'arm_disconnect', account_id, origin, armed: false })
    }
  }

  /** The grace period is over: whoever did not come back is disconnected. */
  async fire(): Promise<void> {
    try {
      for (const account_id of [...this.orphans.keys()]) {
        for (const origin of this.take(account_id)) {
          await this.sequencer.submit({ kind: 'disconnected', account_id, origin })
        }
      }
    } catch {
      // The sequencer stopped and has said so; the arming stands in the journal for the next boot.
    }
  }

  /** Before a planned stop: nothing armed may outlive this process. */
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
