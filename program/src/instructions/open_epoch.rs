//! `open_epoch`: the booting instance fences every earlier one.
use crate::bytes::{compare, Reader, Word};
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::event::{Event, EPOCH_OPENED};
use crate::input::Call;
use core::cmp::Ordering;

struct Opening {
    epoch: u64,
    boot_nonce: *const u8,
    compose_hash: Word,
    journal_seq: u64,
    journal_head: Word,
    restore: u8,
    generation: u64,
}

fn read(mut data: Reader) -> Result<Opening, Fault> {
    let opening = Opening {
        epoch: data.u64()?,
        boot_nonce: data.take(16)?,
        compose_hash: data.word()?,
        journal_seq: data.u64()?,
        journal_head: data.word()?,
        restore: data.u8()?,
        generation: data.u64()?,
    };
    data.end()?;
    require(opening.restore <= 1, INVALID_DATA)?;
    let zero = Word::zero().as_ptr();
    require(compare(opening.boot_nonce, zero, 16) != Ordering::Equal, INVALID_DATA)?;
    Ok(opening)
}

pub fn run(call: &Call, data: Reader) -> Outcome {
    let [signer, config, us] = call.exactly()?;
    let opening = read(data)?;
    us.require_key(call.program)?;
    let config = Config::load_writable(config, call.program)?;
    config.require_settlement_signer(signer)?;
    let expected = config.epoch().checked_add(1).ok_or(OVERFLOW)?;
    require(opening.epoch == expected, EPOCH_OUT_OF_SEQUENCE)?;
    let now = now()?;
    if opening.restore == 1 {
        restore(config, now.unix_s)?;
    } else {
        config.require_journal_forward(opening.journal_seq, opening.journal_head)?;
    }
    require(opening.generation == get!(config.record, generation), WRONG_GENERATION)?;
    set!(config.record, epoch, opening.epoch);
    crate::bytes::copy(field!(config.record, boot_nonce) as *mut u8, opening.boot_nonce, 16);
    set_word!(config.record, compose_hash, opening.compose_hash);
    set!(config.record, epoch_slot, now.slot);
    config.set_journal(opening.journal_seq, opening.journal_head);
    emit(config, &opening, call)
}

/// Consumes the announced restore: the journal may start anew, and every old signed body is void with the generation.
fn restore(config: Config, unix_s: u64) -> Outcome {
    let effective_at_s = get!(config.record, pending_restore_at_s);
    require(effective_at_s != 0 && unix_s >= effective_at_s, RESTORE_NOT_AUTHORIZED)?;
    set!(config.record, pending_restore_at_s, 0);
    let generation = get!(config.record, generation).checked_add(1).ok_or(OVERFLOW)?;
    set!(config.record, generation, generation);
    Ok(())
}

fn emit(config: Config, opening: &Opening, call: &Call) -> Outcome {
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
