/** Which refusals each kind of command can meet beyond token, limit, size and form (protocol.md "Order of checks"). */
import type { RefusalCode } from '../protocol/refusals'

type Codes = readonly RefusalCode[]

const OWNERSHIP: Codes = ['signature_invalid', 'key_bound']
const COLLATERAL: Codes = ['note_unknown', 'note_not_owned', 'note_wrong_mint', 'note_spent', 'note_in_use']
const UNAVAILABLE: Codes = ['matching_unavailable', 'settlement_unavailable', 'draining']
const BODY_FORM: Codes = ['field_element_invalid']

export const CHECK_REFUSALS: Codes = [
  ...BODY_FORM,
  'order_id_zero',
  'anchors_invalid',
  'instrument_unknown',
  'amount_out_of_range',
  'amount_off_lot',
  'price_zero',
  'price_off_tick',
  'value_overflow',
  'min_fill_invalid',
]
const EXPIRY: Codes = ['expiry_too_soon', 'expiry_too_far']
export const PLACE_REFUSALS: Codes = [
  ...CHECK_REFUSALS,
  ...OWNERSHIP,
  'account_suspended',
  'order_exists',
  'order_id_taken',
  'nonce_stale',
  ...EXPIRY,
  ...COLLATERAL,
  'collateral_insufficient',
  'self_cross',
  'instrument_paused',
  ...UNAVAILABLE,
  'order_limit',
  'key_limit',
  'settlement_backlog',
]
export const CANCEL_REFUSALS: Codes = [
  'order_id_zero',
  ...OWNERSHIP,
  'not_owner',
  'order_unknown',
  'order_final',
  'nonce_stale',
  'matching_unavailable',
  'key_limit',
]
export const MODIFY_REFUSALS: Codes = [...new Set([...PLACE_REFUSALS, ...CANCEL_REFUSALS])]
export const CANCEL_ALL_REFUSALS: Codes = [
  'instrument_unknown',
  ...OWNERSHIP,
  'nonce_stale',
  'matching_unavailable',
  'key_limit',
]
export const DEAD_MAN_REFUSALS: Codes = [
  'timeout_out_of_range',
  ...OWNERSHIP,
  'nonce_stale',
  'matching_unavailable',
  'key_limit',
]
const NOTE_COMMAND: Codes = [
  ...BODY_FORM,
  ...OWNERSHIP,
  'account_suspended',
  'order_exists',
  'order_id_taken',
  'nonce_stale',
  ...EXPIRY,
  ...COLLATERAL,
  ...UNAVAILABLE,
  'key_limit',
  'settlement_backlog',
]
export const WITHDRAWAL_REFUSALS: Codes = [
  ...NOTE_COMMAND,
  'collateral_insufficient',
  'withdraw_below_minimum',
]
export const RESHAPE_REFUSALS: Codes = [...NOTE_COMMAND, 'reshape_invalid', 'collateral_insufficient']
