/** Builds the instructions of a wind-down: `claim_escape` (18), `challenge_escape` (19), `pay_escape` (20), `redirect_escape` (21). */
import { bool, fixed, struct, uint, type ValueOf } from '../codec'
import {
  escapeClaimAddress,
  mintRecordAddress,
  SYSTEM_PROGRAM,
  vaultAddresses,
  vaultTokenAddress,
} from './addresses'
import { OPENING, PATH, SPENT_PROOF } from './exits'
import { type Forms, listAccounts, numberOf, type VaultInstruction } from './instruction'

/** `claim_escape`: the owner of a note in a frozen vault claims it. 1,402 bytes. */
const CLAIM_ESCAPE = struct({
  instruction: numberOf('claim_escape'),
  opening: OPENING,
  cited_leaf_count: uint,
  cited_root: fixed(32),
  /** Token account that receives the payment. */
  destination: fixed(32),
  /** Inclusion under the cited root, the present one or one of the ring. */
  path: PATH,
})

const CLAIM_ESCAPE_ACCOUNTS = {
  /** The trading key that owns the note. */
  owner: 's',
  payer: 'sw',
  config: '',
  tree: '',
  ring: '',
  mint_record: 'w',
  claim: 'w',
  system_program: '',
  program: '',
} as const

export type ClaimEscapeFields = ValueOf<typeof CLAIM_ESCAPE> & {
  program: Uint8Array
  owner: Uint8Array
  /** Pays rent, which stays, and the bond of 0.05 SOL, which the payment returns. */
  payer: Uint8Array
  mint: Uint8Array
  nullifier: Uint8Array
}

export function claimEscapeInstruction(fields: ClaimEscapeFields): VaultInstruction {
  const { program, owner, payer } = fields
  const accounts = listAccounts(CLAIM_ESCAPE_ACCOUNTS, {
    ...vaultAddresses(program),
    owner,
    payer,
    mint_record: mintRecordAddress(program, fields.mint),
    claim: escapeClaimAddress(program, fields.nullifier),
    system_program: SYSTEM_PROGRAM,
  })
  return { program, accounts, data: CLAIM_ESCAPE.encode(fields) }
}

/** `challenge_escape`: anyone proves that a batch spent a claimed note, which is not paid, and receives the bond. */
const CHALLENGE_ESCAPE = struct({ instruction: numberOf('challenge_escape'), ...SPENT_PROOF })

const CHALLENGE_ESCAPE_ACCOUNTS = {
  challenger: 'sw',
  config: '',
  tree: '',
  ring: '',
  mint_record: 'w',
  claim: 'w',
  program: '',
} as const

export type ChallengeEscapeFields = ValueOf<typeof CHALLENGE_ESCAPE> & {
  program: Uint8Array
  challenger: Uint8Array
  /** Of the claim. */
  mint: Uint8Array
  nullifier: Uint8Array
}

export function challengeEscapeInstruction(fields: ChallengeEscapeFields): VaultInstruction {
  const { program, challenger } = fields
  const accounts = listAccounts(CHALLENGE_ESCAPE_ACCOUNTS, {
    ...vaultAddresses(program),
    challenger,
    mint_record: mintRecordAddress(program, fields.mint),
    claim: escapeClaimAddress(program, fields.nullifier),
  })
  return { program, accounts, data: CHALLENGE_ESCAPE.encode(fields) }
}

/** `pay_escape`: pays a claim from the later of freeze + 2 x `exit_delay_s` and claim + `exit_delay_s`; anyone may send it. */
const PAY_ESCAPE = struct({
  instruction: numberOf('pay_escape'),
  /** True: a late claim ends with less than its amount where no more is available, if its owner signs. */
  accepts_less: bool,
})

const PAY_ESCAPE_ACCOUNTS = {
  config: '',
  program: '',
  mint_record: 'w',
  mint: '',
  vault_token: 'w',
  token_program: '',
  destination: 'w',
  claim: 'w',
  bond_payer: 'w',
  owner: '',
} as const

type PayEscapeFields = ValueOf<typeof PAY_ESCAPE> & {
  program: Uint8Array
  nullifier: Uint8Array
  mint: Uint8Array
  /** Of the mint. */
  token_program: Uint8Array
  /** As the claim records them. */
  destination: Uint8Array
  bond_payer: Uint8Array
  owner: Uint8Array
}

export function payEscapeInstruction(fields: PayEscapeFields): VaultInstruction {
  const { program, mint } = fields
  const accounts = listAccounts(PAY_ESCAPE_ACCOUNTS, {
    ...fields,
    config: vaultAddresses(program).config,
    mint_record: mintRecordAddress(program, mint),
    vault_token: vaultTokenAddress(program, mint),
    claim: escapeClaimAddress(program, fields.nullifier),
  })
  accounts.at(-1)!.signer = fields.accepts_less
  return { program, accounts, data: PAY_ESCAPE.encode(fields) }
}

/** `redirect_escape`: the owner replaces the destination of an open claim. 41 bytes. */
const REDIRECT_ESCAPE = struct({
  instruction: numberOf('redirect_escape'),
  /** The claim's plus one: an earlier redirect that lands late changes nothing. */
  sequence: uint,
  destination: fixed(32),
})

const REDIRECT_ESCAPE_ACCOUNTS = { owner: 's', config: '', claim: 'w', program: '' } as const

export function redirectEscapeInstruction(
  fields: ValueOf<typeof REDIRECT_ESCAPE> & { program: Uint8Array; owner: Uint8Array; nullifier: Uint8Array },
): VaultInstruction {
  const { program, owner } = fields
  const accounts = listAccounts(REDIRECT_ESCAPE_ACCOUNTS, {
    ...vaultAddresses(program),
    owner,
    claim: escapeClaimAddress(program, fields.nullifier),
  })
  return { program, accounts, data: REDIRECT_ESCAPE.encode(fields) }
}

export const CLAIM_FORMS = {
  claim_escape: { data: CLAIM_ESCAPE, accounts: CLAIM_ESCAPE_ACCOUNTS },
  challenge_escape: { data: CHALLENGE_ESCAPE, accounts: CHALLENGE_ESCAPE_ACCOUNTS },
  pay_escape: { data: PAY_ESCAPE, accounts: PAY_ESCAPE_ACCOUNTS },
  redirect_escape: { data: REDIRECT_ESCAPE, accounts: REDIRECT_ESCAPE_ACCOUNTS },
} satisfies Forms
