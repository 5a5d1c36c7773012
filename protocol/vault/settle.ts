/**
 * Owns `settle` (4): builds the instruction from a batch; `settle_data.ts` owns the bytes.
 *
 * Accounts: settlement_signer (signer) · config (w) · tree (w) · ring (w) · program, then per payout mint
 * mint_record (w) · mint · vault_token (w) · token_program, then per payout destination (w), and for an exit also
 * exit_request (w) · bond_payer (w).
 */

import { equalBytes } from '../bytes'
import { type InstructionAccount, listAccounts } from './account_list'
import { exitRequestAddress, mintRecordAddress, vaultAddresses, vaultTokenAddress } from './addresses'
import type { VaultInstruction } from './instruction'
import { COMPUTE_BUDGET_PROGRAM } from './programs'
import { encodeSettleData, type PayoutKind, type SettleData, type SettlePayout } from './settle_data'

export const SETTLE_ACCOUNTS = [
  { name: 'settlement_signer', signer: true, writable: false },
  { name: 'config', signer: false, writable: true },
  { name: 'tree', signer: false, writable: true },
  { name: 'ring', signer: false, writable: true },
  { name: 'program', signer: false, writable: false },
] as const

export const SETTLE_MINT_ACCOUNTS = [
  { name: 'mint_record', signer: false, writable: true },
  { name: 'mint', signer: false, writable: false },
  { name: 'vault_token', signer: false, writable: true },
  { name: 'token_program', signer: false, writable: false },
] as const

export const SETTLE_WITHDRAWAL_ACCOUNTS = [{ name: 'destination', signer: false, writable: true }] as const

export const SETTLE_EXIT_ACCOUNTS = [
  { name: 'destination', signer: false, writable: true },
  { name: 'exit_request', signer: false, writable: true },
  { name: 'bond_payer', signer: false, writable: true },
] as const

export type PayoutFields = {
  kind: PayoutKind
  mint: Uint8Array
  token_program: Uint8Array
  destination: Uint8Array
  amount: bigint
  /** Inner hash of the note that comes back when the destination is unusable. */
  inner: Uint8Array
  /** Exits only: the request's nullifier (one of the batch's) and who paid its bond. */
  exit?: { nullifier: Uint8Array; bond_payer: Uint8Array }
}

export type SettleFields = Omit<SettleData, 'payouts' | 'payout_mints'> & {
  program: Uint8Array
  settlement_signer: Uint8Array
  payouts: readonly PayoutFields[]
}

function payoutData(
  payout: PayoutFields,
  mints: PayoutFields[],
  nullifiers: readonly Uint8Array[],
): SettlePayout {
  const { kind, amount, inner, exit } = payout
  const mint = mints.findIndex((other) => equalBytes(other.mint, payout.mint))
  if ((kind === 'exit') !== (exit !== undefined)) throw new RangeError('exactly an exit names its request')
  if (exit === undefined) return { kind, mint, nullifier: 0, amount, inner }
  const nullifier = nullifiers.findIndex((other) => equalBytes(other, exit.nullifier))
  if (nullifier === -1) throw new RangeError('an exit spends its nullifier in its own batch')
  return { kind, mint, nullifier, amount, inner }
}

function payoutAccounts(program: Uint8Array, payout: PayoutFields): InstructionAccount[] {
  const { destination, exit } = payout
  const accounts =
    exit === undefined
      ? listAccounts(SETTLE_WITHDRAWAL_ACCOUNTS, { destination })
      : listAccounts(SETTLE_EXIT_ACCOUNTS, {
          destination,
          exit_request: exitRequestAddress(program, exit.nullifier),
          bond_payer: exit.bond_payer,
        })
  // A program the transaction invokes may not be writable; a payout to one lands read-only and is refunded.
  const invoked = [program, COMPUTE_BUDGET_PROGRAM].some((one) => equalBytes(one, destination))
  accounts[0]!.writable = !invoked
  return accounts
}

export function settleInstruction(fields: SettleFields): VaultInstruction {
  const { program, settlement_signer } = fields
  const mints: PayoutFields[] = []
  for (const payout of fields.payouts)
    if (!mints.some((other) => equalBytes(other.mint, payout.mint))) mints.push(payout)
  const payouts = fields.payouts.map((payout) => payoutData(payout, mints, fields.nullifiers))
  const accounts = listAccounts(SETTLE_ACCOUNTS, { ...vaultAddresses(program), settlement_signer })
  for (const { mint, token_program } of mints)
    accounts.push(
      ...listAccounts(SETTLE_MINT_ACCOUNTS, {
        mint_record: mintRecordAddress(program, mint),
        mint,
        vault_token: vaultTokenAddress(program, mint),
        token_program,
      }),
    )
  for (const payout of fields.payouts) accounts.push(...payoutAccounts(program, payout))
  return { program, accounts, data: encodeSettleData({ ...fields, payouts, payout_mints: mints.length }) }
}
