/**
 * Builds the instructions of exits without the venue: `request_exit` (6), `refuse_exit` (7), `freeze` (8), `close_exit` (17);
 * and of a wind-down: `claim_escape` (18), `challenge_escape` (19), `pay_escape` (20), `redirect_escape` (21).
 */
import { array, bool, fixed, list, struct, u8, u64, uint, type ValueOf, word } from '../codec'
import { SETTLE_LIMITS, TREE_DEPTH } from '../limits'
import { bare, builderOf, type FieldsOf, type Forms, numberOf, type VaultInstruction } from './instruction'

/** Opens a note in public, 49 bytes; the note's owner signs the transaction. */
const OPENING = struct({
  /** `deposit` for notes of the program (deposits and refunds), whose commitment covers the leaf index. */
  form: word(['settlement', 'deposit']),
  /** Base units. */
  amount: u64,
  blinding: fixed(32),
  leaf_index: uint,
})
export type NoteOpening = ValueOf<typeof OPENING>

/** Siblings from the leaf upwards. */
const PATH = array(fixed(32), TREE_DEPTH)

/** Proves that a batch spent a note. */
const SPENT_PROOF = {
  /** The present root of the spent log or one of the ring. */
  cited_spent_root: fixed(32),
  batch: uint,
  /** All of the batch. */
  nullifiers: list(fixed(32), SETTLE_LIMITS.nullifiers, u8),
  path: PATH,
}

export const EXIT_FORMS = {
  /** A note's owner demands that the venue pays it out before the deadline. 1,434 bytes. */
  request_exit: {
    data: struct({
      instruction: numberOf('request_exit'),
      opening: OPENING,
      cited_leaf_count: uint,
      cited_root: fixed(32),
      /** Token account that receives the note's whole amount. */
      destination: fixed(32),
      /** Inner hash of the refund note, appended when the destination cannot receive. */
      refund_inner: fixed(32),
      /** Inclusion under the cited root. */
      path: PATH,
    }),
    accounts: {
      /** The trading key that owns the note. */
      owner: 's',
      /** Pays rent and the bond of 0.02 SOL; `close_exit` returns both. */
      payer: 'sw',
      config: '',
      tree: '',
      ring: '',
      mint_record: '',
      exit_request: 'w',
      system_program: '',
      program: '',
    },
  },
  /** Anyone proves that a batch spent a requested note, which is not served, and receives the bond. */
  refuse_exit: {
    data: struct({ instruction: numberOf('refuse_exit'), ...SPENT_PROOF }),
    accounts: { refuser: 'sw', config: '', tree: '', ring: '', exit_request: 'w', program: '' },
  },
  /** Starts the final wind-down once a request that is neither served nor refused is past its deadline. */
  freeze: {
    data: bare('freeze'),
    accounts: { config: 'w', tree: '', exit_request: '', program: '' },
  },
  /** Returns rent and bond of a served request, and in a frozen vault of every request. */
  close_exit: {
    data: bare('close_exit'),
    accounts: { config: '', exit_request: 'w', bond_payer: 'w', program: '' },
  },
} satisfies Forms

export const requestExitInstruction = builderOf(EXIT_FORMS.request_exit)
export const refuseExitInstruction = builderOf(EXIT_FORMS.refuse_exit)
export const closeExitInstruction = builderOf(EXIT_FORMS.close_exit)
export const freezeInstruction = (program: Uint8Array, nullifier: Uint8Array): VaultInstruction =>
  builderOf(EXIT_FORMS.freeze)({ program, nullifier })

export type RequestExitFields = Parameters<typeof requestExitInstruction>[0]

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
      /** True: a late claim ends with less than its amount if no more is available and its owner signs. */
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
