/** Finds the instrument a checked command names. */
import type { InstrumentState } from './instrument'
import type { State } from './state'

/** @throws Error for an unknown symbol: intake has refused those as `instrument_unknown`. */
export function instrumentOf(state: State, symbol: string): InstrumentState {
  const instrument = state.instruments.get(symbol)
  if (instrument === undefined) throw new Error('a command names an unknown instrument')
  return instrument
}
