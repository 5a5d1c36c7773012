/** Builds `deposit` (2): moves tokens into the vault and appends a note in deposit form. */
import { fixed, struct, u64 } from '../codec'
import { builderOf, type Forms, numberOf } from './instruction'

/** 41 bytes. */
const DEPOSIT = struct({
  instruction: numberOf('deposit'),
  /** Base units, at least the mint's `min_deposit`. */
  amount: u64,
  /** `Poseidon(1, owner_hi, owner_lo, blinding)`. */
  inner: fixed(32),
})

export const DEPOSIT_FORMS = {
  deposit: {
    data: DEPOSIT,
    accounts: {
      /** Owner or delegate of `source`. */
      depositor: 's',
      /** Token account that pays. */
      source: 'w',
      config: '',
      tree: 'w',
      ring: 'w',
      mint_record: 'w',
      mint: '',
      vault_token: 'w',
      token_program: '',
      program: '',
    },
  },
} satisfies Forms

export const depositInstruction = builderOf(DEPOSIT_FORMS.deposit)
