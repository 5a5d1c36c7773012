/** The instruments as the public sees them: their terms and durable status, never a live reference. */
import { Refusal } from '../../protocol/refusals'
import type { Instrument } from '../../protocol/wire'
import type { EngineConfig } from '../config'
import type { State } from '../state/state'

export class InstrumentReads {
  private readonly instruments: Map<string, Readonly<Instrument>>
  private list: readonly Instrument[]

  constructor(settings: EngineConfig, state: State) {
    this.instruments = new Map(
      settings.instruments.map((one) => {
        const status = state.instruments.get(one.symbol)?.status ?? 'active'
        return [one.symbol, Object.freeze({ ...one, status })]
      }),
    )
    this.list = Object.freeze([...this.instruments.values()])
  }

  /** A status became durable. */
  setStatus(symbol: string, status: Instrument['status']): void {
    const instrument = this.instruments.get(symbol)
    if (instrument === undefined) return
    this.instruments.set(symbol, Object.freeze({ ...instrument, status }))
    this.list = Object.freeze([...this.instruments.values()])
  }

  /** Frozen, and the same objects until a status changes: what is made of them once may be kept. */
  all(): readonly Instrument[] {
    return this.list
  }

  /** Refuses `instrument_unknown`. */
  one(symbol: string): Instrument {
    const instrument = this.instruments.get(symbol)
    if (instrument === undefined) throw new Refusal('instrument_unknown')
    return instrument
  }
}
