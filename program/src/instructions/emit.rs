//! `emit`: accepts an event the program sent to itself.
use crate::account::record::Record;
use crate::config::ConfigData;
use crate::error::{require, Outcome, NOT_EMITTER};
use crate::input::Call;

/// Only this program can sign for the config account, so no other sender's event is accepted.
pub fn run(call: &Call) -> Outcome {
    let [config] = call.exactly()?;
    require(config.is_signer(), NOT_EMITTER)?;
    Record::<ConfigData>::of(config, call.program).map(|_| ())
}
