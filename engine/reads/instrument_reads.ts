/** The instruments as the public sees them: their terms and durable status, never a live reference. */
import { Refusal } from '../../protocol/refusals'
import type { Instrument } from '../../protocol/wire'
import type { EngineConfig } from '../config'
import type { State } from '../state/state'

export class InstrumentReads {
  private readonly instruments: Map<string, Instrument>

  constructor(settings: EngineConfig, state: State) {
    this.instruments = new Map(
      settings.instruments.map((one) => {
        const status = state.instruments.get(one.symbol)?.status ?? 'active'
        return [one.symbol, { ...one, status }]
      }),
    )
  }

  /** A status became durable. */
  setStatus(symbol: string, status: Instrument['status']): void {
    const instrument = this.instruments.get(symbol)
    if (instrument !== undefined) this.instruments.set(symbol, { ...instrument, status })
  }

  all(): Instrument[] {
    return [...this.instruments.values()]
  }

  /** Refuses `instrument_unknown`. */
  one(symbol: string): Instrument {
    const instrument = this.instruments.get(symbol)
    if (instrument === undefined) throw new Refusal('instrument_unknown')
    return instrument
  }
}
