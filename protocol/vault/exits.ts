/** Builds the instructions of exits without the venue: `request_exit` (6), `refuse_exit` (7), `freeze` (8), `close_exit` (17). */
import { array, fixed, list, struct, u8, u64, uint, type ValueOf, word } from '../codec'
import { SETTLE_LIMITS, TREE_DEPTH } from '../limits'
import { bare, builderOf, type Forms, numberOf, type VaultInstruction } from './instruction'

/** Opens a note in public, 49 bytes; the note's owner signs the transaction. */
export const OPENING = struct({
  /** `deposit` for notes of the program (deposits and refunds), whose commitment covers the leaf index. */
  form: word(['settlement', 'deposit']),
  /** Base units. */
  amount: u64,
  blinding: fixed(32),
  leaf_index: uint,
})
export type NoteOpening = ValueOf<typeof OPENING>

/** Siblings from the leaf upwards. */
export const PATH = array(fixed(32), TREE_DEPTH)

/** Proves that a batch spent a note. */
export const SPENT_PROOF = {
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
