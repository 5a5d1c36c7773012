/** The operator's commands: signed account records and reference prices, verified and journaled. */
import { Refusal } from '../../protocol/refusals'
import type { Engine } from '../boot/assemble'
import { intakeReference } from '../intake/reference'
import type { AccountsPort, VerifiedRecord } from '../ports'

// A source's price, handed in by the operator: verified, journaled, then the reference of coming auctions.

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

// An operator's account record: verified, journaled, then in force.

/** Refuses `operator_signature_invalid`, `record_invalid` and `record_stale`. */
export async function provision(
  engine: Engine,
  accounts: AccountsPort,
  record: unknown,
): Promise<{ account_id: string; version: number }> {
  const verified = accounts.verifyRecord(record)
  engine.availability.requireRunning()
  await engine.sequencer.submit({ kind: 'account_record', ...verified })
  accounts.applyRecord(verified)
  return { account_id: verified.account_id, version: verified.version }
}

/**
 * Puts the records of the journal into force after a boot. A record signed by an operator key that the measured manifest
 * no longer names stays out of force: its account logs in again once the present operator signs a newer record.
 */
export function restoreAccounts(engine: Engine, accounts: AccountsPort): void {
  const decoder = new TextDecoder()
  for (const account of engine.state.accounts.values()) {
    const record: unknown = JSON.parse(decoder.decode(account.record))
    const verified = verifiedOf(accounts, record)
    if (verified !== undefined) accounts.applyRecord(verified)
  }
}

function verifiedOf(accounts: AccountsPort, record: unknown): VerifiedRecord | undefined {
  try {
    return accounts.verifyRecord(record)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'operator_signature_invalid') return undefined
    throw error
  }
}
