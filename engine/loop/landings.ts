/** Tells when every packed settlement batch has reached the chain. */
import type { State } from '../state/state'

export class Landings {
  private waiting: (() => void)[] = []

  constructor(private readonly state: State) {}

  /** Resolves when no batch is left that the chain has not confirmed. */
  done(): Promise<void> {
    if (this.landed()) return Promise.resolve()
    return new Promise((resolve) => {
      this.waiting.push(resolve)
    })
  }

  /** Call after each group of records. */
  check(): void {
    if (this.waiting.length === 0 || !this.landed()) return
    for (const resolve of this.waiting.splice(0)) resolve()
  }

  private landed(): boolean {
    for (const batch of this.state.settlement.batches.values()) {
      if (batch.progress !== 'confirmed' && batch.progress !== 'finalized') return false
    }
    return true
  }
}
