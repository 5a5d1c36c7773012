/** What an opening states of venue and journal, and `anchor` (5) of a running instance. */
import { bool, fixed, struct, uint } from '../codec'
import { builderOf, type Forms, numberOf } from './instruction'

/** What every opening states of venue and journal, 217 bytes. */
export const OPENING_FIELDS = {
  /** The epoch after this instruction: the config's plus one. */
  epoch: uint,
  /** Not zero. */
  boot_nonce: fixed(16),
  compose_hash: fixed(32),
  /** Without `restore` not before the position on chain, and of equal head at equal seq. */
  journal_seq: uint,
  journal_head: fixed(32),
  /** The config's `journal_head`, by which the instance judged its journal; zeros before the first position. */
  expected_head: fixed(32),
  /** True consumes an effective `authorize_restore`, raises the generation and accepts any journal position. */
  restore: bool,
  /** The config's generation, plus one with `restore`. */
  generation: uint,
  /** The config's. */
  last_batch: uint,
  /** The tree account's. */
  spent_root: fixed(32),
  /** A known state of the note tree with at least the config's `settled_leaf_count` leaves. */
  cited_leaf_count: uint,
  cited_root: fixed(32),
} as const

/** `anchor` stores a newer journal position and ignores an older one. 65 bytes. */
const ANCHOR = struct({
  instruction: numberOf('anchor'),
  epoch: uint,
  journal_seq: uint,
  journal_head: fixed(32),
  /**
   * Latest slot and chain second (unix) at which the anchor lands and stores its position as the commit; both 0 for an
   * anchor without commit.
   */
  not_after_slot: uint,
  not_after_s: uint,
})

export const EPOCH_FORMS = {
  anchor: { data: ANCHOR, accounts: { settlement_signer: 's', config: 'w' } },
} satisfies Forms

export const anchorInstruction = builderOf(EPOCH_FORMS.anchor)
