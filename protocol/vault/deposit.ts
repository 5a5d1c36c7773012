/** Builds and decodes `deposit` (2): moves tokens into the vault and appends a note in deposit form. */
import { fixed, struct, u64 } from '../codec'
import { mintRecordAddress, vaultAddresses, vaultTokenAddress } from './addresses'
import { decoded, type Forms, listAccounts, numberOf, type VaultInstruction } from './instruction'

/** 41 bytes. */
const DEPOSIT = struct({
  instruction: numberOf('deposit'),
  /** Base units, at least the mint's `min_deposit`. */
  amount: u64,
  /** `Poseidon(1, owner_hi, owner_lo, blinding)`. */
  inner: fixed(32),
})

const DEPOSIT_ACCOUNTS = {
  depositor: 's',
  source: 'w',
  config: '',
  tree: 'w',
  ring: 'w',
  mint_record: 'w',
  mint: '',
  vault_token: 'w',
  token_program: '',
  program: '',
} as const

type DepositFields = {
  program: Uint8Array
  /** Owner or delegate of `source`. */
  depositor: Uint8Array
  /** Token account that pays. */
  source: Uint8Array
  mint: Uint8Array
  token_program: Uint8Array
  amount: bigint
  inner: Uint8Array
}

export function depositInstruction(fields: DepositFields): VaultInstruction {
  const { program, mint } = fields
  const accounts = listAccounts(DEPOSIT_ACCOUNTS, {
    ...vaultAddresses(program),
    depositor: fields.depositor,
    source: fields.source,
    mint_record: mintRecordAddress(program, mint),
    mint,
    vault_token: vaultTokenAddress(program, mint),
    token_program: fields.token_program,
  })
  return { program, accounts, data: DEPOSIT.encode(fields) }
}

/** Amount and inner hash of a deposit's data; undefined when the data is not exactly a deposit. */
export const decodeDeposit = (data: Uint8Array): { amount: bigint; inner: Uint8Array } | undefined =>
  decoded(DEPOSIT, data)

export const DEPOSIT_FORMS = { deposit: { data: DEPOSIT, accounts: DEPOSIT_ACCOUNTS } } satisfies Forms
