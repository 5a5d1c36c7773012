/** A source's price, handed in by the operator: verified, journaled, then the reference of coming auctions. */
import { Refusal } from '../../protocol/refusals'
import { intakeReference } from '../intake/intake_reference'
import type { Engine } from './assemble'

/** Answers once it is durable. Refuses what `intakeReference` refuses and `matching_unavailable`. */
export async function postReference(
  engine: Engine,
  value: unknown,
): Promise<{ symbol: string; publish_unix_ms: number; seq: number }> {
  const { availability, clock, config, intake, sequencer, state } = engine
  availability.requireRunning()
  const sources = config.reference_sources ?? []
  const { venue } = intake
  try {
    const command = intakeReference({ venue, sources, instruments: state.instruments }, clock.unixMs(), value)
    const { seq } = await sequencer.submit(command)
    return { symbol: command.symbol, publish_unix_ms: command.publish_unix_ms, seq }
  } catch (error) {
    // It was judged by a price that may not be on disk yet.
    if (error instanceof Refusal && error.code === 'reference_stale') await sequencer.durable()
    throw error
  }
}
