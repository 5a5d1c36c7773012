/** Builds the instructions of exits without the venue: `request_exit` (6), `refuse_exit` (7), `freeze` (8), `close_exit` (17). */
import { array, fixed, list, struct, u8, u64, uint, type ValueOf, word } from '../codec'
import { SETTLE_LIMITS, TREE_DEPTH } from '../limits'
import { exitRequestAddress, mintRecordAddress, SYSTEM_PROGRAM, vaultAddresses } from './addresses'
import { bare, type Forms, listAccounts, numberOf, type VaultInstruction } from './instruction'

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

/** `request_exit`: a note's owner demands that the venue pays it out before the deadline. 1,434 bytes. */
const REQUEST_EXIT = struct({
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
})

const REQUEST_EXIT_ACCOUNTS = {
  /** The trading key that owns the note. */
  owner: 's',
  payer: 'sw',
  config: '',
  tree: '',
  ring: '',
  mint_record: '',
  exit_request: 'w',
  system_program: '',
  program: '',
} as const

export type RequestExitFields = ValueOf<typeof REQUEST_EXIT> & {
  program: Uint8Array
  owner: Uint8Array
  /** Pays rent and the bond of 0.02 SOL; `close_exit` returns both. */
  payer: Uint8Array
  mint: Uint8Array
  nullifier: Uint8Array
}

export function requestExitInstruction(fields: RequestExitFields): VaultInstruction {
  const { program, owner, payer } = fields
  const accounts = listAccounts(REQUEST_EXIT_ACCOUNTS, {
    ...vaultAddresses(program),
    owner,
    payer,
    mint_record: mintRecordAddress(program, fields.mint),
    exit_request: exitRequestAddress(program, fields.nullifier),
    system_program: SYSTEM_PROGRAM,
  })
  return { program, accounts, data: REQUEST_EXIT.encode(fields) }
}

/** Proves that a batch spent a note. */
export const SPENT_PROOF = {
  /** The present root of the spent log or one of the ring. */
  cited_spent_root: fixed(32),
  batch: uint,
  /** All of the batch. */
  nullifiers: list(fixed(32), SETTLE_LIMITS.nullifiers, u8),
  path: PATH,
}

/** `refuse_exit`: anyone proves that a batch spent a requested note, which is not served, and receives the bond. */
const REFUSE_EXIT = struct({ instruction: numberOf('refuse_exit'), ...SPENT_PROOF })

const REFUSE_EXIT_ACCOUNTS = {
  refuser: 'sw',
  config: '',
  tree: '',
  ring: '',
  exit_request: 'w',
  program: '',
} as const

export type RefuseExitFields = ValueOf<typeof REFUSE_EXIT> & {
  program: Uint8Array
  refuser: Uint8Array
  nullifier: Uint8Array
}

export function refuseExitInstruction(fields: RefuseExitFields): VaultInstruction {
  const { program, refuser } = fields
  const accounts = listAccounts(REFUSE_EXIT_ACCOUNTS, {
    ...vaultAddresses(program),
    refuser,
    exit_request: exitRequestAddress(program, fields.nullifier),
  })
  return { program, accounts, data: REFUSE_EXIT.encode(fields) }
}

const FREEZE = bare('freeze')
const FREEZE_ACCOUNTS = { config: 'w', tree: '', exit_request: '', program: '' } as const

/** `freeze`: starts the final wind-down once a request that is neither served nor refused is past its deadline. */
export function freezeInstruction(program: Uint8Array, nullifier: Uint8Array): VaultInstruction {
  const exit_request = exitRequestAddress(program, nullifier)
  const accounts = listAccounts(FREEZE_ACCOUNTS, { ...vaultAddresses(program), exit_request })
  return { program, accounts, data: FREEZE.encode({}) }
}

const CLOSE_EXIT = bare('close_exit')
const CLOSE_EXIT_ACCOUNTS = { config: '', exit_request: 'w', bond_payer: 'w', program: '' } as const

/** `close_exit`: returns rent and bond of a served request, and in a frozen vault of every request. */
export function closeExitInstruction(fields: {
  program: Uint8Array
  nullifier: Uint8Array
  bond_payer: Uint8Array
}): VaultInstruction {
  const { program, nullifier, bond_payer } = fields
  const accounts = listAccounts(CLOSE_EXIT_ACCOUNTS, {
    ...vaultAddresses(program),
    exit_request: exitRequestAddress(program, nullifier),
    bond_payer,
  })
  return { program, accounts, data: CLOSE_EXIT.encode({}) }
}

export const EXIT_FORMS = {
  request_exit: { data: REQUEST_EXIT, accounts: REQUEST_EXIT_ACCOUNTS },
  refuse_exit: { data: REFUSE_EXIT, accounts: REFUSE_EXIT_ACCOUNTS },
  freeze: { data: FREEZE, accounts: FREEZE_ACCOUNTS },
  close_exit: { data: CLOSE_EXIT, accounts: CLOSE_EXIT_ACCOUNTS },
} satisfies Forms
