/** What the fields of an opening and `anchor` must be and do. */
import { isZero } from '../../../../protocol/bytes'
import { ANNOUNCEMENT_LIFE_S } from './admin'
import { accountsOf, type Call, must, type Placed, same } from './call'
import {
  advanceJournal,
  CONFIG,
  mustBeEpoch,
  mustBeSigner,
  mustGoForward,
  setJournal,
  setVenue,
  writableConfig,
} from './config_account'
import { Fields, setU64, u64At, wordAt } from './fields'
import { mustKnowState, ringOf, spentRoot, treeOf } from './note_states'

type Advanced = { epoch: bigint; boot_nonce: Uint8Array; compose_hash: Uint8Array }

/** The fields of venue and journal, and what they do to config. */
export function judgeAdvance(
  call: Call,
  accounts: { config: Uint8Array; tree: Placed; ring: Placed },
  fields: Fields,
): Advanced {
  const { config } = accounts
  const [epoch, boot_nonce, compose_hash] = [fields.u64(), fields.bytes(16), fields.word()]
  const [seq, head, expected_head] = [fields.u64(), fields.word(), fields.word()]
  const [restore, generation] = [fields.u8(), fields.u64()]
  const [last_batch, spent_root] = [fields.u64(), fields.word()]
  const [cited_count, cited_root] = [fields.u64(), fields.word()]
  must(restore <= 1, 'a restore flag that is none')
  must(!isZero(boot_nonce), 'an empty boot nonce')
  must(epoch === u64At(config, CONFIG.epoch) + 1n, 'not the next epoch')
  if (restore === 1) {
    const from_s = u64At(config, CONFIG.pending_restore_at_s)
    const now_s = BigInt(call.clock.unix_s)
    const usable = now_s >= from_s && now_s <= from_s + ANNOUNCEMENT_LIFE_S
    must(from_s !== 0n && usable, 'a restore that is not authorized')
    setU64(config, CONFIG.pending_restore_at_s, 0n)
    setU64(config, CONFIG.generation, u64At(config, CONFIG.generation) + 1n)
    config.fill(0, CONFIG.commit_seq, CONFIG.commit_head + 32)
    setVenue(config, call.vault)
  } else mustGoForward(config, seq, head)
  must(same(expected_head, wordAt(config, CONFIG.journal_head)), 'another journal head than the expected one')
  must(generation === u64At(config, CONFIG.generation), 'another generation')
  const [tree, ring] = [treeOf(call, accounts.tree), ringOf(call, accounts.ring)]
  must(last_batch === u64At(config, CONFIG.last_batch), 'another last batch')
  must(same(spent_root, spentRoot(tree)), 'another spent root')
  must(cited_count >= u64At(config, CONFIG.settled_leaf_count), 'a state before the last batch')
  mustKnowState(ring, tree, cited_count, cited_root)
  setU64(config, CONFIG.epoch, epoch)
  config.set(boot_nonce, CONFIG.boot_nonce)
  config.set(compose_hash, CONFIG.compose_hash)
  setU64(config, CONFIG.epoch_slot, BigInt(call.clock.slot))
  setJournal(config, seq, head)
  return { epoch, boot_nonce, compose_hash }
}

export function judgeAnchor(call: Call): void {
  const [signer, config_account] = accountsOf(call, 2)
  const fields = new Fields(call.data)
  const [epoch, seq, head] = [fields.u64(), fields.u64(), fields.word()]
  const [not_after_slot, not_after_s] = [fields.u64(), fields.u64()]
  fields.end()
  must((not_after_slot === 0n) === (not_after_s === 0n), 'half a limit')
  const config = writableConfig(call, config_account)
  mustBeSigner(config, signer)
  mustBeEpoch(config, epoch)
  advanceJournal(config, seq, head)
  if (not_after_slot === 0n) return
  const { slot, unix_s } = call.clock
  must(BigInt(slot) <= not_after_slot && BigInt(unix_s) <= not_after_s, 'an expired commit')
  const stored = u64At(config, CONFIG.commit_seq)
  must(seq >= stored, 'the commit goes back')
  must(seq > stored || same(head, wordAt(config, CONFIG.commit_head)), 'two heads of one commit')
  setU64(config, CONFIG.commit_seq, seq)
  config.set(head, CONFIG.commit_head)
}
