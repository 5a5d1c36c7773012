/** An operator's account record: verified, journaled, then in force. */
import { Refusal } from '../../protocol/refusals'
import type { AccountsPort, VerifiedRecord } from './accounts_port'
import type { Engine } from './assemble'

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
