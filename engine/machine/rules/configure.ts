/** Applies the operator's settings: mints, instruments, capacities, the fee key, and the version of rules and formats. */

import type { CommandOf, Settings } from '../../commands'
import { LIMITS } from '../../limits'
import { Book } from '../book/book'
import { addInstrument, type InstrumentTerms, termsOf } from '../state/instrument'
import type { Answer } from '../state/outcome'
import { keyBytes, type State, setSettings } from '../state/state'
import { requireVersion } from '../state/version'

/**
 * Mints and instruments are never removed; an instrument that is no longer configured is paused.
 * @throws Error when the units of a known instrument change: its orders and fills are stored in them
 */
export function applyConfigure(state: State, command: CommandOf<'configure'>): Answer {
  const { settings } = command
  const { settlement_parts_min: min } = LIMITS
  if (settings.settlement_parts_max < min) throw new Error(`settlement_parts_max is below ${min}`)
  for (const mint of settings.mints) setMint(state, mint)
  for (const config of settings.instruments) setInstrument(state, config)
  const configured = new Set(settings.instruments.map((config) => config.symbol))
  for (const instrument of state.instruments.values()) {
    if (!configured.has(instrument.terms.symbol) && instrument.status === 'active')
      instrument.status = 'paused'
  }
  setSettings(state, settings)
  return { kind: 'done' }
}

/** @throws VersionUnknown, which ends the process; Error unless it is the next one */
export function applyActivate(state: State, { version }: CommandOf<'activate'>): Answer {
  if (version !== state.version + 1) throw new Error('a version follows the one before')
  state.version = requireVersion(version)
  return { kind: 'done' }
}

/** The index of a mint never changes, because fee blindings depend on it. */
function setMint(state: State, config: Settings['mints'][number]): void {
  const at = state.mints.findIndex((mint) => mint.text === config.mint)
  const mint = {
    bytes: keyBytes(config.mint),
    text: config.mint,
    min_withdraw: BigInt(config.min_withdraw),
    withdraw_fee: BigInt(config.withdraw_fee),
  }
  if (at !== -1) {
    state.mints[at] = mint
    return
  }
  state.mints.push(mint)
  state.settlement.fees.push(0n)
}

function setInstrument(state: State, config: Settings['instruments'][number]): void {
  const terms = termsOf(config, (mint) => {
    const index = state.mints.findIndex((one) => one.text === mint)
    if (index === -1) throw new Error('an instrument names a mint that is not configured')
    return index
  })
  const known = state.instruments.get(terms.symbol)
  if (known !== undefined) {
    if (!sameUnits(known.terms, terms)) throw new Error('the units of a known instrument changed')
    known.terms = terms
    return
  }
  const last = terms.reference_policy === 'last'
  addInstrument(state, {
    index: state.instruments.size,
    terms,
    status: 'active',
    reference_ticks: last ? terms.initial_reference_ticks : undefined,
    reference_unix_ms: 0,
    reference_source: '',
    next_batch: 1,
    live: 0,
    book: new Book(state.pool, terms.initial_reference_ticks),
  })
}

function sameUnits(a: InstrumentTerms, b: InstrumentTerms): boolean {
  return (
    a.base === b.base &&
    a.quote === b.quote &&
    a.lot_size === b.lot_size &&
    a.tick_size === b.tick_size &&
    a.base_decimals === b.base_decimals &&
    a.reference_policy === b.reference_policy
  )
}
