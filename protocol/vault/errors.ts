/**
 * Lists the numbered errors of the vault program (`InstructionError::Custom`). Numbers start at 7,000, apart from those
 * of the token and system programs, which pass through unchanged; they are never reused or reordered.
 */

export const VAULT_ERRORS = [
  [7000, 'unknown_instruction', 'The first byte of the data names no instruction.'],
  [7002, 'invalid_data', 'The data has the wrong length, or a field outside its range.'],
  [7003, 'missing_accounts', 'The account list has the wrong length.'],
  [7004, 'missing_signature', 'An account that must sign did not.'],
  [7005, 'not_writable', 'An account that must be writable is not.'],
  [7007, 'wrong_owner', 'An account belongs to another program.'],
  [7008, 'wrong_address', 'An account is not the derived address, program or recorded key it must be.'],
  [7009, 'wrong_account', 'Kind, version or size of an account is not the one expected.'],
  [7010, 'already_initialized', 'The account to create exists already.'],
  [7011, 'not_deployer', 'The signer is not the upgrade authority of the program.'],
  [7012, 'not_top_level', 'The instruction may not be an inner one.'],
  [7013, 'not_admin', 'The signer is not the admin.'],
  [7014, 'not_settlement_signer', 'The signer is not the settlement signer.'],
  [7015, 'not_emitter', 'Only the program itself emits events.'],
  [7016, 'overflow', 'A sum or difference leaves the range of u64.'],
  [7017, 'unsupported_sysvar', 'The rent parameters of the cluster have an unknown form.'],
  [7018, 'call_failed', 'A called program reported a failure.'],
  [7020, 'vault_paused', 'The vault is paused: deposit and settle wait.'],
  [7021, 'vault_frozen', 'The vault winds down: deposit, settle and new exit requests have ended.'],
  [7023, 'not_paused', 'The vault is not paused, or is paused already.'],
  [7024, 'vault_not_frozen', 'The vault is not frozen: claims open with the freeze.'],
  [
    7030,
    'unsupported_mint',
    'The mint, or an extension of it, can take, block or destroy tokens of the vault.',
  ],
  [7031, 'mint_uninitialized', 'The mint is not initialized.'],
  [7032, 'too_many_mints', 'No further mint can be registered.'],
  [7033, 'below_min_deposit', "The deposit is smaller than the mint's min_deposit."],
  [7034, 'below_min_exit', "The note is smaller than the mint's min_exit."],
  [7035, 'transfer_mismatch', 'The vault token account did not change by exactly the amount.'],
  [7036, 'source_is_vault', 'A deposit cannot come from the vault itself.'],
  [7040, 'not_field_element', "A value is zero or not below the field's modulus."],
  [7041, 'tree_full', 'The note tree has no room for the leaves.'],
  [7042, 'hash_failed', 'The Poseidon syscall refused its input.'],
  [7050, 'epoch_out_of_sequence', 'The new epoch is not the current one plus one.'],
  [7051, 'stale_epoch', 'The epoch is not the current one: a newer one is open, or none was opened yet.'],
  [
    7052,
    'batch_out_of_sequence',
    'The batch is not the last one plus one, or an opening states another last batch.',
  ],
  [
    7053,
    'unknown_state',
    'The cited (leaf count, note root) is neither current nor in the ring, or is older than the last batch.',
  ],
  [7054, 'journal_regressed', 'The journal position lies before the one on chain.'],
  [7055, 'journal_conflict', 'The journal head differs from the one on chain at the same position.'],
  [7056, 'not_ascending', 'Nullifiers or commitments are not strictly ascending.'],
  [7058, 'spent_root_mismatch', 'An opening states another spent root than the one on chain.'],
  [7059, 'wrong_generation', 'The generation is not the one this epoch belongs to.'],
  [7060, 'payout_above_liabilities', "The payout exceeds the mint's liabilities."],
  [7061, 'insolvent', 'The vault token account holds less than is owed, or less than the payout.'],
  [
    7062,
    'payout_mismatch',
    'A payout names no mint or nullifier of its batch, an exit is paid twice, or accounts differ from the queue entry.',
  ],
  [7063, 'queue_full', 'The payout queue has no free place.'],
  [7064, 'queue_cannot_grow', 'The payout queue has its largest size.'],
  [7065, 'refund_not_due', 'The queue entry is younger than 7 days.'],
  [7066, 'anchor_expired', 'The anchor arrived after its latest slot or second.'],
  [7067, 'commit_regressed', 'The commit lies before the one on chain.'],
  [7070, 'invalid_inclusion', "The path does not lead from the note's commitment to the root."],
  [
    7071,
    'invalid_spent_proof',
    'The batch does not spend the nullifier, or its path does not lead to the spent root.',
  ],
  [7072, 'unknown_spent_root', 'The cited spent root is neither current nor in the ring.'],
  [7074, 'deadline_not_reached', "The request's deadline has not passed."],
  [7077, 'exit_already_requested', 'The note has an exit request.'],
  [7078, 'exit_served', 'The request is served: it can only be closed.'],
  [7079, 'exit_open', 'The request is neither served nor ended by a freeze.'],
  [7080, 'nothing_pending', 'No such change is announced, or it is void 30 days after it took effect.'],
  [7081, 'not_effective', 'The announced change is not effective yet.'],
  [7082, 'restore_not_authorized', 'No effective restore is announced, or it is void after 30 days.'],
  [
    7083,
    'outage_too_soon',
    'The last outage is less than 90 days old, or the deadlines it extended are not over.',
  ],
  [7090, 'already_claimed', 'The note has a claim, open or closed.'],
  [7091, 'claim_closed', 'The claim is paid or cancelled.'],
  [7092, 'payment_not_due', 'The claim cannot be paid yet.'],
  [
    7093,
    'destination_unusable',
    'The destination cannot receive the payment, or the issuer froze the vault.',
  ],
  [7094, 'payment_short', 'Less than the amount of the late claim is available, and its owner did not sign.'],
  [7095, 'wrong_sequence', "The redirect's sequence is not the claim's plus one."],
  [7100, 'not_announced', 'Nothing of this kind is announced, or it was revoked.'],
  [7101, 'not_raised', 'The new minimum admits something that the old one refuses.'],
  [
    7110,
    'signatures_not_verified',
    'The instruction before is not the P-256 precompile over exactly the two signatures in this one.',
  ],
  [7111, 'invalid_certificate', 'A certificate is no strict DER of its form.'],
  [
    7112,
    'wrong_certificate_role',
    'Name, basic constraints, key usage or SGX extension of a certificate are those of another role.',
  ],
  [7113, 'wrong_extension', 'A certificate has an extension twice, an unknown critical one, or lacks one.'],
  [7114, 'invalid_sgx_extension', 'A member of the SGX extension is missing, doubled or out of order.'],
  [
    7115,
    'wrong_authority',
    'The leaf was issued by another authority, or the key is not in its certificate.',
  ],
  [7116, 'wrong_root', 'The root key is not the announced one.'],
] as const

export type VaultErrorName = (typeof VAULT_ERRORS)[number][1]
type VaultError = { code: number; name: VaultErrorName; meaning: string }

const BY_CODE = new Map<number, VaultError>(
  VAULT_ERRORS.map(([code, name, meaning]) => [code, { code, name, meaning }]),
)

/** The vault's error with this custom code; undefined for codes of other programs. */
export const vaultError = (code: number): VaultError | undefined => BY_CODE.get(code)

/** Custom code of a named error. */
export function vaultErrorCode(name: VaultErrorName): number {
  const row = VAULT_ERRORS.find(([, other]) => other === name)
  if (row === undefined) throw new Error(`no vault error is called ${name}`)
  return row[0]
}
