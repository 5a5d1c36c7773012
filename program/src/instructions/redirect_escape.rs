//! `redirect_escape`: the owner of an open claim replaces its destination.
use crate::bytes::Reader;
use crate::config::Config;
use crate::error::*;
use crate::escape_claim;
use crate::event::{Event, ESCAPE_REDIRECTED};
use crate::input::Call;

pub fn run(call: &Call, mut data: Reader) -> Outcome {
    let [owner, config, account, us] = call.exactly()?;
    let (sequence, destination) = (data.u64()?, data.word()?);
    data.end()?;
    us.require_key(call.program)?;
    let config = Config::load(config, call.program)?;
    let claim = escape_claim::load_open(account, call.program)?;
    owner.require_signer()?;
    owner.require_key(word!(claim, owner))?;
    // Two redirects that were signed one after the other cannot land in the other order.
    require(sequence == get!(claim, sequence) + 1, WRONG_SEQUENCE)?;
    set!(claim, sequence, sequence);
    set_word!(claim, destination, destination);

    let mut event = Event::begin(ESCAPE_REDIRECTED);
    event.word(word!(claim, nullifier));
    event.u64(sequence);
    event.word(destination);
    event.emit(&config, call.program)
}
