//! The fields of an opening, and their effect on config.
use crate::account::Account;
use crate::bytes::{compare, Reader, Word};
use crate::clock::Now;
use crate::config::{is_void, Config};
use crate::error::*;
use crate::event::{Event, EPOCH_OPENED};
use crate::input::Call;
use crate::known_states::KnownStates;
use crate::tree::Trees;
use core::cmp::Ordering;

pub struct Opening {
    pub epoch: u64,
    pub boot_nonce: *const u8,
    pub compose_hash: Word,
    journal_seq: u64,
    journal_head: Word,
    expected_head: Word,
    restore: u8,
    generation: u64,
    last_batch: u64,
    spent_root: Word,
    cited_leaf_count: u64,
    cited_root: Word,
}

pub fn read(data: &mut Reader) -> Result<Opening, Fault> {
    let opening = Opening {
        epoch: data.u64()?,
        boot_nonce: data.take(16)?,
        compose_hash: data.word()?,
        journal_seq: data.u64()?,
        journal_head: data.word()?,
        expected_head: data.word()?,
        restore: data.u8()?,
        generation: data.u64()?,
        last_batch: data.u64()?,
        spent_root: data.word()?,
        cited_leaf_count: data.u64()?,
        cited_root: data.word()?,
    };
    require(opening.restore <= 1, INVALID_DATA)?;
    let zero = Word::zero().as_ptr();
    require(compare(opening.boot_nonce, zero, 16) != Ordering::Equal, INVALID_DATA)?;
    Ok(opening)
}

/// The accounts that show the chain's state.
pub struct Known {
    pub tree: Account,
    pub ring: Account,
    pub program: Word,
}

/// Moves config to the new epoch, where the instance knows all that the chain does.
#[inline(never)]
pub fn advance(config: Config, accounts: &Known, opening: &Opening, now: &Now) -> Outcome {
    let expected = config.epoch().checked_add(1).ok_or(OVERFLOW)?;
    require(opening.epoch == expected, EPOCH_OUT_OF_SEQUENCE)?;
    require_present(config, accounts.tree, accounts.ring, opening)?;
    if opening.restore == 1 {
        restore(config, now.unix_s, accounts.program)?;
    } else {
        config.require_journal_forward(opening.journal_seq, opening.journal_head)?;
    }
    config.require_journal_head(opening.expected_head)?;
    require(opening.generation == get!(config.record, generation), WRONG_GENERATION)?;
    set!(config.record, epoch, opening.epoch);
    crate::bytes::copy(field!(config.record, boot_nonce) as *mut u8, opening.boot_nonce, 16);
    set_word!(config.record, compose_hash, opening.compose_hash);
    set!(config.record, epoch_slot, now.slot);
    config.set_journal(opening.journal_seq, opening.journal_head);
    Ok(())
}

/// Consumes the announced restore: the journal may start again, and every old signed body is void with the generation.
fn restore(config: Config, unix_s: u64, program: Word) -> Outcome {
    let effective_at_s = get!(config.record, pending_restore_at_s);
    let usable = unix_s >= effective_at_s && !is_void(effective_at_s, unix_s);
    require(effective_at_s != 0 && usable, RESTORE_NOT_AUTHORIZED)?;
    set!(config.record, pending_restore_at_s, 0);
    let generation = get!(config.record, generation).checked_add(1).ok_or(OVERFLOW)?;
    set!(config.record, generation, generation);
    set!(config.record, commit_seq, 0);
    set_word!(config.record, commit_head, Word::zero());
    config.set_venue(program);
    Ok(())
}

/// The instance knows every batch, and a note state that no deposit or refund can take from it: one that is known and
/// not older than the last batch.
fn require_present(config: Config, tree: Account, ring: Account, opening: &Opening) -> Outcome {
    let trees = Trees::load(tree, config)?;
    let ring = KnownStates::load(ring, config)?;
    require(opening.last_batch == config.last_batch(), BATCH_OUT_OF_SEQUENCE)?;
    require(opening.spent_root.equals(trees.spent_root()), SPENT_ROOT_MISMATCH)?;
    let settled = get!(config.record, settled_leaf_count);
    require(opening.cited_leaf_count >= settled, UNKNOWN_STATE)?;
    ring.require_known(trees, opening.cited_leaf_count, opening.cited_root)
}

pub fn emit(config: Config, opening: &Opening, call: &Call) -> Outcome {
    let mut event = Event::begin(EPOCH_OPENED);
    event.u64(opening.epoch);
    event.u64(opening.generation);
    event.bytes(opening.boot_nonce, 16);
    event.word(opening.compose_hash);
    event.u64(opening.journal_seq);
    event.word(opening.journal_head);
    event.u8(opening.restore);
    event.emit(&config, call.program)
}
