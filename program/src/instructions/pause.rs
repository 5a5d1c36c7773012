//! `pause` and `unpause`: at once, for `deposit` and `settle` only; exits never stop.
use crate::bytes::Reader;
use crate::clock::now;
use crate::config::Config;
use crate::error::{require, Outcome, NOT_PAUSED};
use crate::input::Call;

pub fn run(call: &Call, data: Reader, paused: bool) -> Outcome {
    let [admin, config] = call.exactly()?;
    data.end()?;
    let config = Config::load_writable(config, call.program)?;
    config.require_admin(admin)?;
    require(config.is_paused() != paused, NOT_PAUSED)?;
    set!(config.record, paused, u8::from(paused));
    if paused {
        set!(config.record, paused_at_s, now()?.unix_s);
    }
    Ok(())
}
