/** Gives the cause and the remedy of each refusal; the documents show both with its meaning. */
import type { RefusalCode } from '../../protocol/refusals'

export const REMEDIES: Readonly<Record<RefusalCode, readonly [cause: string, remedy: string]>> = {
  route_unknown: [
    'The path does not exist in this version, or this origin does not serve the document.',
    'Compare the path with this reference.',
  ],
  method_not_allowed: ['The path exists with other methods only.', 'Use a method of the `Allow` header.'],
  upgrade_required: ['A path of a socket was called without the headers of an upgrade.', 'Open a WebSocket.'],
  token_missing: [
    '`Authorization: Bearer TOKEN` is absent or has another form.',
    'Log in with `POST /auth/token` and send the token in `Authorization`.',
  ],
  token_invalid: [
    'The venue does not know the token: it is of another venue, was revoked or ended before the venue was started, or is damaged.',
    'Log in again.',
  ],
  token_expired: [
    'Its life, `expires_in` of the login, is over.',
    'Log in again; on a socket send `auth.refresh` before the end.',
  ],
  token_revoked: ['It was revoked, or its credential was replaced or revoked.', 'Log in again.'],
  credentials_invalid: [
    'One of `api_key`, `api_secret` and `passphrase` is wrong; which one is not said.',
    'Check the three parts of the login and that they are of this venue.',
  ],
  credential_expired: [
    '`expiry_s` of the credential has passed.',
    'Register a credential of a higher version.',
  ],
  operator_signature_invalid: [
    'The call is for the operator alone, and its signature, nonce or time is wrong.',
    'Sign with the operator key, for this venue, with a clock that is right.',
  ],
  read_only: [
    'The credential has kind `read`, which lists and streams only.',
    'Log in with a credential of kind `trade`.',
  ],
  rate_limited: [
    'The bucket of the account is empty: REST and sockets draw on the same one.',
    'Wait as long as `Retry-After` states; `RateLimit-Policy` names the bucket.',
  ],
  login_limited: [
    'Wrong secrets were sent for this credential too often.',
    'Wait as long as `Retry-After` states.',
  ],
  login_busy: [
    'Checking a passphrase is slow on purpose, and too many checks are under way.',
    'Wait as long as `Retry-After` states.',
  ],
  quote_busy: [
    'The hardware makes few quotes a second, and their queue is full.',
    'Wait as long as `Retry-After` states; quotes of one caller alone are rare and slow.',
  ],
  export_busy: ['One export to the auditor runs at a time.', 'Wait until the other export has ended.'],
  body_too_large: ['The body is longer than any command can be.', 'Send less; commands are far smaller.'],
  content_type_unsupported: [
    'The header `content-type` is absent or names another type.',
    'Send `content-type: application/json`.',
  ],
  json_malformed: ['The body is not UTF-8, is not JSON, or was cut.', 'Send one JSON value in UTF-8.'],
  key_duplicate: [
    'An object or a query has the same key twice; which one counts would be a guess.',
    'Name each key once.',
  ],
  field_unknown: [
    'A name is misspelt, or belongs to another call.',
    'Leave out the field that `field` names.',
  ],
  field_missing: ['A field without a default was left out.', 'Add the field that `field` names.'],
  field_invalid: [
    'Another type, length, alphabet or range: a number where a text belongs, upper case in hex, a leading zero.',
    'Give the field that `field` names its form; amounts and prices are texts.',
  ],
  field_element_invalid: [
    'A commitment, anchor or blinding is zero or not below the modulus p.',
    'Reduce the value below the modulus of BN254; it is not zero.',
  ],
  order_id_zero: ['16 zero bytes are not an id.', 'Choose another id.'],
  anchors_invalid: [
    'There are none or more than 16, two are equal, or one is zero or not below p.',
    'Derive 1 to 16 anchors from the seed, each another.',
  ],
  reshape_invalid: [
    'Sums differ, an amount is zero, an input repeats, or their order is not ascending.',
    'Name inputs in ascending order and amounts above zero with the same sum.',
  ],
  after_invalid: [
    '`after` is no number, or beyond the newest event: it is of another account or venue.',
    'Begin with the last event that you have, or without `after`.',
  ],
  frame_invalid: [
    'The frame has no `op` of this socket, no usable `id`, or members beside `op`, `id` and `params`.',
    'Send `{op, id, params}` with an operation of this socket.',
  ],
  record_invalid: [
    "The operator's record breaks a rule of its form, or a limit in it is out of range.",
    'Sign the record with the current tools.',
  ],
  instrument_unknown: ['The venue does not list this symbol.', 'Take a symbol of `GET /instruments`.'],
  amount_out_of_range: [
    'The amount is below `min_amount` or above `max_amount` of the instrument.',
    'Stay within `min_amount` and `max_amount`.',
  ],
  amount_off_lot: ['The amount does not divide by `lot_size`.', 'Round to a multiple of `lot_size`.'],
  price_zero: [
    'Every order has a limit: there are no market orders.',
    'Name the worst price that you accept.',
  ],
  price_off_tick: ['The price does not divide by `tick_size`.', 'Round to a multiple of `tick_size`.'],
  value_overflow: [
    'Amount times price, with the fee, is 2^64 quote units or more.',
    'Lower amount or price.',
  ],
  min_fill_invalid: [
    'It is above the amount or off lot, or an order of type `fok` names a part.',
    'Name a multiple of `lot_size` up to the amount; `fok` takes 0 or the amount.',
  ],
  timeout_out_of_range: [
    '`timeout_slots` is neither 0 nor within its bounds.',
    'Take a timeout that the schema permits.',
  ],
  signature_invalid: [
    'The signed bytes differ from the canonical body: another venue id, field order, width or key.',
    'Sign the canonical body of this venue (`venue` of `/info`) with the trading key.',
  ],
  account_unknown: [
    'The operator has not admitted this account on this generation of the venue.',
    'Ask the operator for admission.',
  ],
  key_bound: [
    'Another account sent the first command of this key.',
    'Use the account that the key belongs to, or rebind the key.',
  ],
  account_suspended: [
    'The operator suspended or closed the account.',
    'Ask the operator; cancels, withdrawals and reads work.',
  ],
  not_owner: [
    'The order belongs to another trading key or account.',
    'Use the account and the key that made it.',
  ],
  reference_source_invalid: [
    'The key that signed the price is not a source of the instrument.',
    'Sign with a key of `TACIT_REFERENCE_SOURCES`.',
  ],
  order_exists: [
    'The same bytes were accepted before, as after a lost answer.',
    'Nothing: `result` is the first answer.',
  ],
  order_id_taken: [
    'The id belongs to other bytes: an id is used once.',
    'Choose a new id for another order.',
  ],
  order_unknown: [
    'The id is misspelt, of another account, or no longer kept.',
    'Check the id; orders of other accounts are unknown, too.',
  ],
  order_final: [
    'It was filled, cancelled, replaced or expired before.',
    'Nothing: it has ended; `status_now` states how.',
  ],
  withdrawal_unknown: ['The id is misspelt or of another account.', 'Check the id.'],
  reshape_unknown: ['The id is misspelt or of another account.', 'Check the id.'],
  batch_unknown: [
    'The settlement batch has not landed, or never existed.',
    'Ask again when the batch has landed.',
  ],
  auction_unknown: [
    'The batch was void or had no such instrument, or its records were dropped.',
    'Take a batch of a fill; export before the journal drops it.',
  ],
  auditor_unset: [
    'The measured settings name no key that an export could be encrypted to.',
    'Name an auditor with `TACIT_AUDITOR_KEY`.',
  ],
  leaf_unknown: [
    'The commitment is not in the tree that finalized blocks show: too new, or wrong.',
    'Ask again when the deposit is final.',
  ],
  evidence_unknown: [
    'The evidence has three files; this is none of them.',
    'Take a name of the evidence list.',
  ],
  nonce_stale: [
    'A command of the key with this nonce or a higher one was accepted.',
    'Ask `GET /nonces` and sign again above `nonce_last`.',
  ],
  version_unsupported: [
    'The build of a node is too old for it, or another version is in force.',
    'Replace every node by a build that carries it; `GET /system/status` of each node names what it carries.',
  ],
  record_stale: [
    'A record with this version or a higher one is in force.',
    'Sign a record with a higher version.',
  ],
  credential_version: [
    'A credential with this version or a higher one is known.',
    'Sign with a higher version.',
  ],
  credential_taken: ['The random id is in use already.', 'Make another credential.'],
  reference_stale: ['A newer price is known, or the publish time is out of bounds.', 'Sign a newer price.'],
  expiry_too_soon: [
    'The order would end before it can take part in an auction.',
    'Ask `GET /time` and name a later slot.',
  ],
  expiry_too_far: ['The life of the order would be longer than the venue permits.', 'Name an earlier slot.'],
  note_unknown: [
    'The commitment is wrong, the deposit is not final, the opening is absent or wrong, or the key is another.',
    'Wait until the deposit is final, and send its opening.',
  ],
  note_wrong_mint: [
    'A buy pays with the quote mint, a sell with the base mint.',
    'Name a note of the mint that the order pays with.',
  ],
  note_spent: [
    'A fill, withdrawal, reshape or exit consumed the note.',
    'Name another note; the events state what spent it.',
  ],
  note_in_use: [
    'A live order, a withdrawal, a reshape or an exit request has the note.',
    'Cancel what it backs, or name another note.',
  ],
  collateral_insufficient: [
    'A buy needs quote amount and fee at the limit, a sell its amount.',
    'Name a larger note, or merge notes first.',
  ],
  withdraw_below_minimum: [
    'The amount is below what a payment is worth.',
    'Withdraw at least `min_withdraw`.',
  ],
  self_cross: [
    'An account is never on both sides of one auction.',
    'Cancel the own order, or choose another price.',
  ],
  instrument_paused: ['The operator paused the instrument.', 'Wait; `GET /instruments` has the status.'],
  reopening: [
    'No slot came for too long; traders get time to cancel before matching goes on.',
    'Send again from `reopens_slot` on.',
  ],
  matching_unavailable: [
    'The epoch is not open yet, or journal and chain contradict each other.',
    'Ask `GET /system/status` for the reason, and send again.',
  ],
  lease_lost: [
    'No quorum of providers has lately confirmed the epoch of this instance.',
    'Send the same bytes again.',
  ],
  unanchored: [
    'Nothing is acknowledged beyond a bound after the last position on chain.',
    'Send the same bytes again.',
  ],
  settlement_unavailable: [
    'The vault is paused or frozen, or settlement is halted.',
    'Ask `GET /system/status` for the reason, and send again.',
  ],
  draining: [
    'The operator ends the process for an upgrade.',
    'Verify the venue again when it is back, and send then.',
  ],
  disk_full: [
    'The free space, or the memory left while snapshots fail, is kept for cancels and withdrawals.',
    'Wait; cancels and withdrawals work.',
  ],
  order_limit: [
    'With this record the accounts together could have more live orders than the venue holds.',
    'Send again later.',
  ],
  account_order_limit: [
    'The account has as many live orders as its record permits.',
    'Cancel orders, or ask the operator for a higher limit.',
  ],
  credential_limit: ['The account has 16 credentials.', 'Revoke a credential.'],
  account_key_limit: [
    'The account has as many trading keys as its record permits.',
    'Use a key that the account has.',
  ],
  key_limit: [
    'With this record the accounts together could have more trading keys than the venue holds.',
    'Give the account, or others, fewer keys.',
  ],
  commit_undecided: [
    "Between close and decision cancels wait, and the account's queue of them is full.",
    'Send again after the decision: within seconds.',
  ],
  commit_reorged: [
    'The cluster rolled back a confirmed block that held the commit of a batch.',
    'Send the same bytes again.',
  ],
  settlement_backlog: [
    'More matched orders wait for the chain than the venue takes on.',
    'Send again later.',
  ],
  connection_limit: [
    'The account has as many sockets as one account may, or as many armed ones over all nodes.',
    'Close a socket of the account, or disarm one.',
  ],
  socket_limit: ['The venue has as many sockets as it takes.', 'Connect again later.'],
  outcome_unknown: [
    'The command is on disk, and its answer was held back: the sync was slow or the epoch was lost.',
    'Send the same bytes again until another answer comes.',
  ],
  enclave_unavailable: ['The guest agent that makes quotes and keys is away.', 'Ask again later.'],
  internal: [
    'A fault of the venue, which its log holds under `request_id`.',
    'Ask for the command by its id; report `request_id`.',
  ],
}
