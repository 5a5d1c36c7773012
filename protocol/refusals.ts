/**
 * Every refusal the venue gives: code, HTTP status and sentence, in the order the checks run (protocol.md "Order of
 * checks"). The first check that fails answers. Codes are only added: never renamed, reused or reordered;
 * test/golden/refusals.json holds them.
 */
import { BODY_BYTES_MAX } from './limits'

const LIST = [
  // transport
  ['route_unknown', 404, 'No such path.'],
  ['method_not_allowed', 405, 'This path does not take this method.'],
  ['upgrade_required', 426, 'This path is a WebSocket stream; connect with an upgrade.'],
  // who
  ['token_missing', 401, 'A bearer token is required.'],
  ['token_invalid', 401, 'The bearer token is not known here.'],
  ['token_expired', 401, 'The bearer token has expired; log in again.'],
  ['token_revoked', 401, 'The bearer token was revoked.'],
  ['credentials_invalid', 401, 'The credentials are not valid.'],
  ['credential_expired', 401, 'The credential has expired.'],
  ['operator_signature_invalid', 401, 'The operator signature is missing or not valid.'],
  ['read_only', 403, 'The credential only reads orders, fills and events.'],
  // how much
  ['rate_limited', 429, 'Too many requests; wait and retry.'],
  ['login_limited', 429, 'Too many wrong credentials for this api key; wait and retry.'],
  ['login_busy', 429, 'Too many logins at once; wait and retry.'],
  ['quote_busy', 429, 'Too many attestation quotes are being made; wait and retry.'],
  ['export_busy', 429, 'Another export is being made; wait and retry.'],
  ['body_too_large', 413, `The body exceeds ${BODY_BYTES_MAX} bytes.`],
  // form
  ['content_type_unsupported', 415, 'The body must be application/json.'],
  ['json_malformed', 400, 'What was sent is not valid JSON.'],
  ['key_duplicate', 400, 'A key is named twice.'],
  ['field_unknown', 400, 'A field was sent that is not defined here.'],
  ['field_missing', 400, 'A required field is missing.'],
  ['field_invalid', 400, 'A field does not have its required form.'],
  ['field_element_invalid', 400, 'A value is not a usable field element.'],
  ['order_id_zero', 400, 'The order id is zero.'],
  ['anchors_invalid', 400, 'The anchors are not 1 to 16 distinct, non-zero field elements.'],
  ['reshape_invalid', 400, 'Inputs and outputs do not form a merge or split.'],
  ['after_invalid', 400, 'The resume point is malformed or ahead of the log.'],
  ['frame_invalid', 400, 'The frame is not a defined operation.'],
  ['record_invalid', 400, 'The account record is not well formed.'],
  // the command, as far as it does not depend on hidden state
  ['instrument_unknown', 404, 'No such instrument.'],
  ['amount_out_of_range', 400, 'The amount is outside the limits of the instrument.'],
  ['amount_off_lot', 400, 'The amount is not a multiple of lot_size.'],
  ['price_zero', 400, 'The price limit is zero.'],
  ['price_off_tick', 400, 'The price limit is not a multiple of tick_size.'],
  ['value_overflow', 400, 'The quote amount with fee at the limit exceeds 64 bits.'],
  ['min_fill_invalid', 400, 'min_fill exceeds the amount, is off lot, or contradicts the order type.'],
  ['timeout_out_of_range', 400, 'timeout_slots is outside the limits.'],
  // whose
  ['signature_invalid', 403, 'The signature did not verify.'],
  ['account_unknown', 404, 'No such account.'],
  ['key_bound', 403, 'The trading key belongs to another account.'],
  ['account_suspended', 403, 'The account is suspended or closed; it can cancel, withdraw, read.'],
  ['not_owner', 403, 'The resource belongs to another trading key or account.'],
  ['reference_source_invalid', 403, 'The price is not signed by a named source of this instrument.'],
  // resends, existence, replay
  ['order_exists', 409, 'This command was already accepted; the original result is attached.'],
  ['order_id_taken', 409, 'The id was used with other content.'],
  ['order_unknown', 404, 'No such order.'],
  ['order_final', 409, 'The order is already final.'],
  ['withdrawal_unknown', 404, 'No such withdrawal.'],
  ['reshape_unknown', 404, 'No such reshape.'],
  ['batch_unknown', 404, 'No such landed settlement batch.'],
  [
    'auction_unknown',
    404,
    'No auction was held in such a batch, or the journal no longer reaches back to it.',
  ],
  ['auditor_unset', 404, 'The settings name no auditor.'],
  ['leaf_unknown', 404, 'No such leaf in the finalized tree.'],
  ['evidence_unknown', 404, 'No such evidence file.'],
  ['nonce_stale', 409, 'The nonce did not advance.'],
  ['record_stale', 409, 'The account record is not newer than the known one.'],
  [
    'version_unsupported',
    409,
    'The version is not the next one, or a live node of the venue does not carry it.',
  ],
  ['credential_version', 409, 'The version does not exceed the newest one.'],
  ['credential_taken', 409, 'Another account uses this credential id.'],
  ['reference_stale', 409, 'The price is too old, ahead of time, or not newer than the known one.'],
  ['expiry_too_soon', 400, 'expiry_slot lies before the next close.'],
  ['expiry_too_far', 400, 'expiry_slot lies beyond the longest life of an order.'],
  // collateral
  ['note_unknown', 404, 'The note is neither known nor opened.'],
  ['note_wrong_mint', 400, 'The note is of another mint.'],
  ['note_spent', 409, 'The note is already spent.'],
  ['note_in_use', 409, 'The note already backs a live command.'],
  ['collateral_insufficient', 400, 'The note does not cover the amount with fee.'],
  ['withdraw_below_minimum', 400, 'The amount is below min_withdraw of the mint.'],
  ['self_cross', 409, 'The order would cross an own live order.'],
  // can we
  ['instrument_paused', 503, 'The instrument is paused; cancelling is possible.'],
  [
    'reopening',
    503,
    'The chain stalled; orders are accepted again from reopens_slot on. Cancelling is possible.',
  ],
  ['matching_unavailable', 503, 'Matching is not available; see /system/status.'],
  ['lease_lost', 503, 'The chain has not shown lately that this instance holds the epoch.'],
  ['unanchored', 503, 'The journal position on chain is too old.'],
  ['settlement_unavailable', 503, 'Settlement is not available; see /system/status.'],
  ['draining', 503, 'The venue is shutting down for an upgrade.'],
  [
    'disk_full',
    503,
    'The disk of the venue is nearly full or takes no snapshots; cancelling and withdrawing are possible.',
  ],
  ['order_limit', 503, 'The accounts together may not have this many live orders.'],
  ['account_order_limit', 429, 'The bound on live orders of the account is reached.'],
  ['credential_limit', 429, 'The bound on credentials is reached.'],
  ['account_key_limit', 429, 'The bound on trading keys of the account is reached.'],
  ['key_limit', 503, 'The bound on trading keys of the venue is reached.'],
  ['commit_undecided', 503, 'Too many commands of the account wait for the decision of the closed batch.'],
  ['commit_reorged', 503, 'The chain dropped a decided batch; nothing is acknowledged until it is back.'],
  ['settlement_backlog', 503, 'Too many matched orders wait for settlement.'],
  ['connection_limit', 429, 'The bound on open sockets of the account is reached.'],
  ['socket_limit', 503, 'The bound on open sockets of the venue is reached.'],
  ['outcome_unknown', 503, 'The command is stored and may be applied; send the same bytes again.'],
  ['enclave_unavailable', 503, 'The enclave agent does not answer.'],
  ['internal', 500, 'The venue failed; ask for the state of the command by its id.'],
] as const

export type RefusalCode = (typeof LIST)[number][0]
type RefusalEntry = { readonly code: RefusalCode; readonly status: number; readonly message: string }

export const REFUSALS: readonly RefusalEntry[] = LIST.map(([code, status, message]) => ({
  code,
  status,
  message,
}))
export const REFUSAL_BY_CODE: ReadonlyMap<RefusalCode, RefusalEntry> = new Map(
  REFUSALS.map((r) => [r.code, r]),
)

/** With these a node of a cluster says that it executed nothing, and that it does not lead now, or no longer. */
export const NOT_LEADING: readonly RefusalCode[] = ['lease_lost', 'draining']

/** Typed facts that may accompany a refusal; never the submitted value. */
export type RefusalFacts = {
  field?: string
  nonce_last?: string
  retry_after_ms?: number
  status_now?: string
  subsystem?: string
  reopens_slot?: number
  result?: unknown
}

/** A command or request the venue declines. Nothing was changed, except that an identical resend was applied before. */
export class Refusal extends Error {
  constructor(
    readonly code: RefusalCode,
    readonly facts: RefusalFacts = {},
  ) {
    super(REFUSAL_BY_CODE.get(code)!.message)
    this.name = 'Refusal'
  }
  get status(): number {
    return REFUSAL_BY_CODE.get(this.code)!.status
  }
  get applied(): 'no' | 'yes' | 'unknown' {
    if (this.code === 'order_exists') return 'yes'
    return this.code === 'outcome_unknown' || this.code === 'internal' ? 'unknown' : 'no'
  }
}
