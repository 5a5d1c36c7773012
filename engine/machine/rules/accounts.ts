/** Decides and applies the commands of accounts: admission, credentials, logins and the move of a trading key. */
import { encodeBase58 } from '../../../protocol/base58'
import type { AccountChange } from '../../../protocol/wire/trading'
import type { CommandOf } from '../../commands'
import { LIMITS } from '../../limits'
import { type Account, keyOf, newAccount, type TradingKey } from '../state/account'
import { isMember } from '../state/closed'
import { type Answer, type Effects, type RefusedOutcome, refuse } from '../state/outcome'
import { type State, settingsOf } from '../state/state'
import { accountOf, bindKey, checkNonce } from './checks'
import { endOrder } from './order_life'

type Passed = { ok: true }

/** Emits `account.changed` and keeps it for `GET /account`, where logins make room before other changes do. */
function change(fx: Effects, account: Account, data: AccountChange): number {
  const seq = fx.emit(account, 'account.changed', () => data)
  const { changes } = account
  changes.push({ seq, slot: fx.slot, unix_ms: fx.unix_ms, ...data })
  if (changes.length <= LIMITS.account_changes_max) return seq
  const login = changes.findIndex((one) => one.change === 'login')
  changes.splice(Math.max(0, login), 1)
  return seq
}

/**
 * Refuses `record_stale` unless the version is above the known one, `record_invalid` for a closed account and beyond the
 * bound on accounts, and `order_limit` or `key_limit` when the accounts could have more live orders or trading keys than the venue:
 * then the refusal of one account would reveal the orders of others. So would this one, if it counted live orders.
 */
export function decideAccountRecord(
  state: State,
  command: CommandOf<'account_record'>,
): Passed | RefusedOutcome {
  const { account_id, limits, version } = command
  const known = state.accounts.get(account_id)
  if (known !== undefined && version <= known.version) return refuse('record_stale')
  if (known?.state === 'closed') return refuse('record_invalid', { field: 'state' })
  if (known === undefined && state.accounts.size >= LIMITS.accounts_max)
    return refuse('record_invalid', { field: 'account_key' })
  let orders = known === undefined ? limits.orders_live_max : ordersOf(state, { ...known, limits })
  for (const one of state.accounts.values()) if (one !== known) orders += ordersOf(state, one)
  if (orders > LIMITS.orders_live_max) return refuse('order_limit')
  const keys = { limits, keys: known?.keys ?? [] }
  // A record that asks for no more does not concern the others.
  if (known !== undefined && keysOf(keys) <= keysOf(known)) return { ok: true }
  let most = keysOf(keys)
  for (const one of state.accounts.values()) if (one !== known) most += keysOf(one)
  return most > LIMITS.trading_keys_max ? refuse('key_limit') : { ok: true }
}

/** The most trading keys that an account can have; a lower limit takes none from it. */
const keysOf = ({ limits, keys }: Pick<Account, 'limits' | 'keys'>): number =>
  Math.max(limits.keys_max, keys.length)

/** The most live orders that an account can have, those accepted before its bound was lowered included. */
function ordersOf({ slot }: State, { limits, orders_held }: Pick<Account, 'limits' | 'orders_held'>): number {
  return slot > orders_held.until_slot
    ? limits.orders_live_max
    : Math.max(limits.orders_live_max, orders_held.max)
}

export function applyAccountRecord(state: State, fx: Effects, command: CommandOf<'account_record'>): Answer {
  const { account_id, account_key, limits, version } = command
  const account = state.accounts.get(account_id) ?? newAccount(account_id, account_key)
  account.version = version
  account.state = command.state
  const max = ordersOf(state, account)
  if (limits.orders_live_max < max)
    account.orders_held = { max, until_slot: state.slot + settingsOf(state).order_life_slots_max }
  account.limits = limits
  state.accounts.set(account_id, account)
  change(fx, account, { change: 'admission', state: command.state, version })
  return { kind: 'done' }
}

/** Refuses `account_unknown`, `credential_version`, `credential_taken` and `credential_limit`. */
export function decideCredential(state: State, command: CommandOf<'credential'>): Passed | RefusedOutcome {
  const account = state.accounts.get(command.account_id)
  if (account === undefined) return refuse('account_unknown')
  if (command.version <= account.credential_version) return refuse('credential_version')
  const owner = state.credentials.get(command.credential_id.toHex())
  if (owner !== undefined && owner !== account) return refuse('credential_taken')
  const more = owner === undefined && command.grants !== 'revoke'
  const full = account.credentials.length >= LIMITS.account_credentials_max
  return more && full ? refuse('credential_limit') : { ok: true }
}

/** Revoking an unknown credential only raises the version, which voids every body signed before. */
export function applyCredential(state: State, fx: Effects, command: CommandOf<'credential'>): Answer {
  const { expiry_s, grants, passphrase_digest, salt, secret_hash, version } = command
  const credential_id = command.credential_id.toHex()
  const account = accountOf(state, command.account_id)
  account.credential_version = version
  account.credentials = account.credentials.filter((one) => one.credential_id !== credential_id)
  account.tokens = account.tokens.filter((one) => one.credential_id !== credential_id)
  if (grants === 'revoke') state.credentials.delete(credential_id)
  else {
    const terms = { version, secret_hash, passphrase_digest, salt, expiry_s }
    account.credentials.push({ credential_id, kind: grants, ...terms, created_slot: fx.slot })
    state.credentials.set(credential_id, account)
  }
  const seq = change(fx, account, { change: 'credential', credential_id, version, kind: grants })
  return { kind: 'credential', result: { credential_id, version, seq } }
}

/** Refuses `credentials_invalid` of a credential replaced meanwhile, and `credential_expired` by the chain's clock. */
export function decideLogin(
  state: State,
  command: CommandOf<'login' | 'token_issued'>,
): Passed | RefusedOutcome {
  const { credentials } = accountOf(state, command.account_id)
  const known = credentials.find((one) => one.credential_id === command.credential_id)
  if (known?.version !== command.version) return refuse('credentials_invalid')
  const over = known.expiry_s > 0 && command.unix_ms >= known.expiry_s * 1_000
  return over ? refuse('credential_expired') : { ok: true }
}

export function applyLogin(state: State, fx: Effects, command: CommandOf<'login' | 'token_issued'>): Answer {
  const { account_id, credential_id, version } = command
  const account = accountOf(state, account_id)
  change(fx, account, { change: 'login', credential_id, version })
  if (command.kind === 'token_issued') issueToken(account, command)
  return { kind: 'done' }
}

/** Ends the oldest token of the credential beyond `credential_tokens_max`. */
function issueToken(account: Account, { credential_id, token_id, until_ms, unix_ms }: TokenIssuing): void {
  const tokens = account.tokens.filter((one) => one.until_ms > unix_ms)
  tokens.push({ token_id, credential_id, until_ms })
  const own = tokens.filter((one) => one.credential_id === credential_id)
  account.tokens = own.length > LIMITS.credential_tokens_max ? tokens.filter((one) => one !== own[0]) : tokens
}
type TokenIssuing = CommandOf<'token_issued'>

/** For a token that has ended already it changes nothing. */
export function applyTokenEnded(state: State, { account_id, token_id }: CommandOf<'token_ended'>): Answer {
  const account = accountOf(state, account_id)
  account.tokens = account.tokens.filter((one) => one.token_id !== token_id)
  return { kind: 'done' }
}

type RebindPlan = { ok: true; key: TradingKey | undefined }

/**
 * Refuses `nonce_stale`, `account_key_limit`, and `commit_undecided` while an order of the key takes part in a closed batch: no
 * account may be on both sides of one.
 */
export function decideRebind(state: State, command: CommandOf<'rebind'>): RebindPlan | RefusedOutcome {
  const account = accountOf(state, command.account_id)
  const key = keyOf(state, command.trading_key)
  const stale = checkNonce(key, 'cancel_nonce', command.cancel_nonce)
  if (stale !== undefined) return stale
  if (key?.account !== account && account.keys.length >= account.limits.keys_max)
    return refuse('account_key_limit')
  if (key === undefined) return { ok: true, key }
  const waits = state.orders.of(key).some(isMember) || (state.closed?.modifiesOf(key).length ?? 0) > 0
  return waits ? refuse('commit_undecided') : { ok: true, key }
}

/** The key's orders end in the account that it leaves. */
export function applyRebind(
  state: State,
  fx: Effects,
  command: CommandOf<'rebind'>,
  plan: RebindPlan,
): Answer {
  const { cancel_nonce, trading_key: bytes } = command
  const account = accountOf(state, command.account_id)
  const key =
    plan.key ?? bindKey(state, { ok: true, account, bytes, text: encodeBase58(bytes), key: undefined })
  key.cancel_nonce = cancel_nonce
  const cancelled: string[] = []
  for (const order of state.orders.of(key)) {
    cancelled.push(order.order_id)
    endOrder(state, fx, order, { status: 'cancelled', reason: 'rebound' })
  }
  const trading_key = key.text
  const former = key.account
  if (former !== account) {
    former.keys = former.keys.filter((one) => one !== key)
    change(fx, former, { change: 'key_left', trading_key })
    key.account = account
    // In the order of binding, which a snapshot restores.
    account.keys.push(key)
    account.keys.sort((a, b) => a.index - b.index)
  }
  const seq = change(fx, account, { change: 'key_joined', trading_key })
  return { kind: 'rebind', result: { trading_key, cancelled, seq } }
}
