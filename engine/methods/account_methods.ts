/** Executes the calls that change or show accounts: admission, credentials, rebind, the trader's view, the operator's list. */
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { Refusal } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { Engine } from '../boot/assemble'
import { intakeAdmission, intakeCredential, intakeRebind } from '../intake/requests'
import type { Account } from '../machine/state/account'
import type { State } from '../machine/state/state'
import type { AccountSummary } from '../venue'

/** @throws Refusal `operator_signature_invalid`, `record_invalid`, `record_stale`, `order_limit` or of Availability */
export async function admit(
  engine: Engine,
  request: Parsed<typeof wire.AdmissionRequest>,
): Promise<{ account_id: string; version: number }> {
  const command = intakeAdmission(engine.intake.venue, decodeBase58(engine.config.operator_key, 32)!, request)
  engine.availability.requireRunning()
  await engine.sequencer.submit(command)
  return { account_id: command.account_id, version: command.version }
}

/**
 * @throws Refusal `field_invalid`, `signature_invalid`, `account_unknown`, `credential_version`, `credential_taken`,
 * `credential_limit` or of Availability
 */
export async function setCredential(
  engine: Engine,
  account_id: string | undefined,
  request: Parsed<typeof wire.CredentialRequest>,
): Promise<wire.CredentialResult> {
  const command = intakeCredential(engine.intake.venue, request)
  if (account_id !== undefined && command.account_id !== account_id) throw new Refusal('account_unknown')
  engine.availability.requireRunning()
  const { answer } = await engine.sequencer.submit(command)
  if (answer.kind !== 'credential') throw new Error('a command was answered as another kind')
  return answer.result
}

/** @throws Refusal `signature_invalid`, `nonce_stale`, `account_key_limit`, `key_limit`, `commit_undecided` or of Availability */
export async function rebind(
  engine: Engine,
  account_id: string,
  request: Parsed<typeof wire.RebindRequest>,
): Promise<wire.RebindResult> {
  const command = intakeRebind(engine.intake.venue, account_id, request)
  engine.availability.requireRunning()
  const { answer } = await engine.sequencer.submit(command)
  if (answer.kind !== 'rebind') throw new Error('a command was answered as another kind')
  return answer.result
}

export async function viewAccount(engine: Engine, account_id: string): Promise<wire.AccountView> {
  const view = viewOf(engine.state, account_id)
  await engine.sequencer.durable(true)
  return view
}

/** Hashes of secrets stay inside. @throws Refusal `token_invalid` */
export function viewOf(state: State, account_id: string): wire.AccountView {
  const account = state.accounts.get(account_id)
  if (account === undefined) throw new Refusal('token_invalid')
  return {
    ...summaryOf(account),
    credential_version: account.credential_version,
    credentials: account.credentials.map(({ credential_id, kind, version, expiry_s, created_slot }) => {
      return { credential_id, kind, version, expiry_s, created_slot }
    }),
    keys: account.keys.map(({ text }) => text),
    changes: [...account.changes],
  }
}

/** The terms in force, by account id, once they are durable. */
export async function listAccounts({ sequencer, state }: Engine): Promise<AccountSummary[]> {
  const all = [...state.accounts.values()].map(summaryOf)
  await sequencer.durable(true)
  return all.sort((a, b) => (a.account_id < b.account_id ? -1 : 1))
}

function summaryOf({ account_id, account_key, version, state, limits }: Account): AccountSummary {
  return { account_id, account_key: encodeBase58(account_key), version, state, limits }
}
