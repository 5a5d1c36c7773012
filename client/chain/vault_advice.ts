/** What the owner of a note can do about a refusal of the vault program; refusals only a faulty client meets have none. */
import type { VaultErrorName } from '../../protocol/vault/errors'

const RUN_AGAIN = 'The vault moved on meanwhile: run it again.'

export const VAULT_ADVICE: Partial<Record<VaultErrorName, string>> = {
  vault_paused: 'Deposit later; exits work meanwhile.',
  vault_frozen: "What is in it leaves by 'exit escape'; nothing else goes in or out.",
  not_frozen: "Ask for the note with 'exit request'; unserved at its deadline, 'exit freeze' opens the way.",
  below_min_deposit: "Deposit more; 'audit-chain' and /info of a venue tell the mint's bounds.",
  below_min_exit:
    'Merge it with other notes at the venue first; from a frozen vault it escapes whatever its size.',
  unknown_state: RUN_AGAIN,
  unknown_spent_root: RUN_AGAIN,
  deadline_not_reached: "'exit status' tells the deadline.",
  exit_already_requested: "Nothing is lost: 'exit status' tells its deadline.",
  already_escaped: "'sync' marks it spent.",
  note_spent: "'sync' marks it spent.",
  destination_unusable: 'Name a token account of this mint that is not frozen, or leave --destination out.',
}
