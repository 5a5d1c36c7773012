//! `emit`: accepts an event the program sent to itself.
use crate::config::Config;
use crate::error::{require, Outcome, NOT_EMITTER};
use crate::input::Call;

/// Only this program can sign for the config account, so nobody else gets an event accepted.
pub fn run(call: &Call) -> Outcome {
    let [config] = call.exactly()?;
    require(config.is_signer(), NOT_EMITTER)?;
    Config::load(config, call.program).map(|_| ())
}
