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
    config.record.set_u8::<3>(u8::from(paused));
    if paused {
        config.record.set_u64::<328>(now()?.unix_s);
    }
    Ok(())
}
