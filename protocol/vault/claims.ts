/** Builds the instructions of a wind-down: `claim_escape` (18), `challenge_escape` (19), `pay_escape` (20), `redirect_escape` (21). */
import { bool, fixed, struct, uint } from '../codec'
import { OPENING, PATH, SPENT_PROOF } from './exits'
import { builderOf, type FieldsOf, type Forms, numberOf, type VaultInstruction } from './instruction'

export const CLAIM_FORMS = {
  /** The owner of a note in a frozen vault claims it. 1,402 bytes. */
  claim_escape: {
    data: struct({
      instruction: numberOf('claim_escape'),
      opening: OPENING,
      cited_leaf_count: uint,
      cited_root: fixed(32),
      /** Token account that receives the payment. */
      destination: fixed(32),
      /** Inclusion under the cited root, the present one or one of the ring. */
      path: PATH,
    }),
    accounts: {
      /** The trading key that owns the note. */
      owner: 's',
      /** Pays rent, which stays, and the bond of 0.05 SOL, which the payment returns. */
      payer: 'sw',
      config: '',
      tree: '',
      ring: '',
      mint_record: 'w',
      claim: 'w',
      system_program: '',
      program: '',
    },
  },
  /** Anyone proves that a batch spent a claimed note, which is not paid, and receives the bond. */
  challenge_escape: {
    data: struct({ instruction: numberOf('challenge_escape'), ...SPENT_PROOF }),
    accounts: {
      challenger: 'sw',
      config: '',
      tree: '',
      ring: '',
      mint_record: 'w',
      claim: 'w',
      program: '',
    },
  },
  /** Pays a claim from the later of freeze + 2 x `exit_delay_s` and claim + `exit_delay_s`; anyone may send it. */
  pay_escape: {
    data: struct({
      instruction: numberOf('pay_escape'),
      /** True: a late claim ends with less than its amount where no more is available, if its owner signs. */
      accepts_less: bool,
    }),
    accounts: {
      config: '',
      program: '',
      mint_record: 'w',
      mint: '',
      vault_token: 'w',
      token_program: '',
      /** Destination, bond payer and owner are as the claim records them. */
      destination: 'w',
      claim: 'w',
      bond_payer: 'w',
      owner: '',
    },
  },
  /** The owner replaces the destination of an open claim. 41 bytes. */
  redirect_escape: {
    data: struct({
      instruction: numberOf('redirect_escape'),
      /** The claim's plus one: an earlier redirect that lands late changes nothing. */
      sequence: uint,
      destination: fixed(32),
    }),
    accounts: { owner: 's', config: '', claim: 'w', program: '' },
  },
} satisfies Forms

export const claimEscapeInstruction = builderOf(CLAIM_FORMS.claim_escape)
export const challengeEscapeInstruction = builderOf(CLAIM_FORMS.challenge_escape)
export const redirectEscapeInstruction = builderOf(CLAIM_FORMS.redirect_escape)

export function payEscapeInstruction(fields: FieldsOf<typeof CLAIM_FORMS.pay_escape>): VaultInstruction {
  const instruction = builderOf(CLAIM_FORMS.pay_escape)(fields)
  instruction.accounts.at(-1)!.signer = fields.accepts_less
  return instruction
}
