//! `authorize_restore`: announced on chain, effective a quarter of the exit delay later, consumed by an opening.
use crate::bytes::Reader;
use crate::clock::now;
use crate::config::Config;
use crate::error::*;
use crate::input::Call;

const ANNOUNCE: u8 = 0;
const CANCEL: u8 = 2;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [admin, config] = call.exactly()?;
    let action = data.u8()?;
    data.end()?;
    let config = Config::load_writable(config, call.program)?;
    config.require_admin(admin)?;
    if action == CANCEL {
        require(get!(config.record, pending_restore_at_s) != 0, NOTHING_PENDING)?;
        set!(config.record, pending_restore_at_s, 0);
        return Ok(());
    }
    require(action == ANNOUNCE, INVALID_DATA)?;
    // Rounded up, so never zero: a stored zero means that nothing is announced.
    let delay_s = config.exit_delay_s().div_ceil(4);
    let effective_at_s = now()?.unix_s.checked_add(delay_s).ok_or(OVERFLOW)?;
    set!(config.record, pending_restore_at_s, effective_at_s);
    Ok(())
}
