/** Operator-signed account records: a new account, or a newer version of a known one. */
import type { CommandOf } from '../commands'
import { newAccount } from './account'
import { type Answer, type RefusedOutcome, refuse } from './outcome'
import type { State } from './state'

/** Refuses `record_stale` unless the version is above the known one. */
export function decideAccountRecord(
  state: State,
  command: CommandOf<'account_record'>,
): { ok: true } | RefusedOutcome {
  const version = state.accounts.get(command.account_id)?.version ?? 0
  return command.version > version ? { ok: true } : refuse('record_stale')
}

export function applyAccountRecord(state: State, command: CommandOf<'account_record'>): Answer {
  const account = state.accounts.get(command.account_id) ?? newAccount(command.account_id)
  account.version = command.version
  account.status = command.status
  account.orders_live_max = command.orders_live_max
  account.keys_max = command.keys_max
  account.record = command.record
  state.accounts.set(account.account_id, account)
  return { kind: 'done' }
}
