/**
 * Builds `deposit` (2): moves tokens into the vault and appends a note in deposit form, which the program computes.
 *
 * Data, 41 bytes: 0 discriminator · 1 amount u64 · 9 inner (32, field element, not zero).
 */
import { mintRecordAddress, vaultAddresses, vaultTokenAddress } from './addresses'
import { INSTRUCTION, listAccounts, type VaultInstruction } from './instruction'
import { LayoutReader, LayoutWriter } from './layout'

const DEPOSIT_BYTES = 41

const DEPOSIT_ACCOUNTS = [
  { name: 'depositor', signer: true, writable: false },
  { name: 'source', signer: false, writable: true },
  { name: 'config', signer: false, writable: false },
  { name: 'tree', signer: false, writable: true },
  { name: 'ring', signer: false, writable: true },
  { name: 'mint_record', signer: false, writable: true },
  { name: 'mint', signer: false, writable: false },
  { name: 'vault_token', signer: false, writable: true },
  { name: 'token_program', signer: false, writable: false },
  { name: 'program', signer: false, writable: false },
] as const

type DepositFields = {
  program: Uint8Array
  /** Owner or delegate of `source`. */
  depositor: Uint8Array
  /** Token account that pays. */
  source: Uint8Array
  mint: Uint8Array
  token_program: Uint8Array
  /** Base units, at least the mint's `min_deposit`. */
  amount: bigint
  /** `Poseidon(1, owner_hi, owner_lo, blinding)`. */
  inner: Uint8Array
}

export function depositInstruction(fields: DepositFields): VaultInstruction {
  const { program, mint } = fields
  const data = new LayoutWriter(DEPOSIT_BYTES)
    .u8(INSTRUCTION.deposit)
    .u64(fields.amount)
    .bytes(fields.inner, 32)
    .finish()
  const accounts = listAccounts(DEPOSIT_ACCOUNTS, {
    ...vaultAddresses(program),
    depositor: fields.depositor,
    source: fields.source,
    mint_record: mintRecordAddress(program, mint),
    mint,
    vault_token: vaultTokenAddress(program, mint),
    token_program: fields.token_program,
  })
  return { program, accounts, data }
}

/** Amount and inner hash of a deposit's data; undefined when the data is not exactly a deposit. */
export function decodeDeposit(data: Uint8Array): { amount: bigint; inner: Uint8Array } | undefined {
  if (data.length !== DEPOSIT_BYTES || data[0] !== INSTRUCTION.deposit) return undefined
  const reader = new LayoutReader(data, 1)
  return { amount: reader.u64(), inner: reader.bytes(32) }
}
