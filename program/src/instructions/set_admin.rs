//! `set_admin`: announced on chain, effective twice the exit delay later, so users can leave first, and void 30 days after that.
use crate::bytes::{Reader, Word};
use crate::clock::now;
use crate::config::{is_void, Config};
use crate::error::*;
use crate::input::Call;

const ANNOUNCE: u8 = 0;
const APPLY: u8 = 1;
const CANCEL: u8 = 2;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [admin, config] = call.exactly()?;
    let (action, key) = (data.u8()?, data.word()?);
    data.end()?;
    let config = Config::load_writable(config, call.program)?;
    require(key.is_zero() != (action == ANNOUNCE), INVALID_DATA)?;
    let (pending, effective_at_s) = config.pending_admin();
    let pending = Word::of(&pending);
    if action == ANNOUNCE {
        config.require_admin(admin)?;
        let delay_s = config.exit_delay_s().checked_add(config.exit_delay_s()).ok_or(OVERFLOW)?;
        let effective_at_s = now()?.unix_s.checked_add(delay_s).ok_or(OVERFLOW)?;
        config.set_pending_admin(key, effective_at_s);
        return Ok(());
    }
    require(action == APPLY || action == CANCEL, INVALID_DATA)?;
    require(!pending.is_zero(), NOTHING_PENDING)?;
    if action == CANCEL {
        config.require_admin(admin)?;
        config.set_pending_admin(Word::zero(), 0);
        return Ok(());
    }
    // The new admin signs for itself: a mistyped key can be announced but never take over.
    admin.require_signer()?;
    require(admin.key().equals(pending), NOT_ADMIN)?;
    let now_s = now()?.unix_s;
    require(now_s >= effective_at_s, NOT_EFFECTIVE)?;
    require(!is_void(effective_at_s, now_s), NOTHING_PENDING)?;
    set_word!(config.record, admin, pending);
    config.set_pending_admin(Word::zero(), 0);
    Ok(())
}
