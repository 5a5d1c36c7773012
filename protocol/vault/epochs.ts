/** Builds and decodes the instructions of a running instance: `open_epoch` (3) and `anchor` (5). */
import { bool, fixed, struct, uint, type ValueOf, zeros } from '../codec'
import { builderOf, decoded, type Forms, numberOf } from './instruction'

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

/**
 * `open_epoch` fences every earlier instance of the venue. 1,232 bytes: the zeros make it fit only a v1 transaction, and
 * the vault takes no deposits before it, so a cluster where no exit request could land never holds anything. A vault whose
 * epochs are attested refuses it.
 */
const OPEN_EPOCH = struct({
  instruction: numberOf('open_epoch'),
  ...OPENING_FIELDS,
  padding: zeros(1_232 - 218),
})
export type OpenEpochFields = ValueOf<typeof OPEN_EPOCH>

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
export type AnchorFields = ValueOf<typeof ANCHOR>

export const EPOCH_FORMS = {
  open_epoch: {
    data: OPEN_EPOCH,
    accounts: { settlement_signer: 's', config: 'w', tree: '', ring: '', program: '' },
  },
  anchor: { data: ANCHOR, accounts: { settlement_signer: 's', config: 'w' } },
} satisfies Forms

export const openEpochInstruction = builderOf(EPOCH_FORMS.open_epoch)
export const anchorInstruction = builderOf(EPOCH_FORMS.anchor)

/** Undefined when the data is not exactly an `open_epoch`. */
export const decodeOpenEpoch = (data: Uint8Array): OpenEpochFields | undefined => decoded(OPEN_EPOCH, data)
/** Undefined when the data is not exactly an `anchor`. */
export const decodeAnchor = (data: Uint8Array): AnchorFields | undefined => decoded(ANCHOR, data)
